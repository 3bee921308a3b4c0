# SPDX-License-Identifier: GPL-2.0
# bash completion for flotilla(8)
#
# Words are what the kernel has, paths that any client may have asked for among them, and names of files: they are
# compared and quoted, and nothing ("compgen -W", an unquoted word) expands them.

# "@files" stands for the names of files.
_flotilla_words()
{
	local object=$1 command=$2 previous=$3 position=$4

	case $previous in
	role)	echo backend frontend; return ;;
	admin)	echo active drain maintenance; return ;;
	forward) echo direct ipip udp; return ;;
	auth)	echo none psk x509; return ;;
	insecure) echo on off; return ;;
	--remote) [[ $object == cache ]] && { _flotilla_nodes; return; } ;;
	remote)	[[ $object == afpa ]] && { echo off frontends nodes; return; } ;;
	state)	echo hold forward linger; return ;;
	node)	[[ $object == conn ]] && { _flotilla_nodes; return; } ;;
	room)	flotilla -t stats 2>/dev/null | cut -f1 | sort -u; return ;;
	name)	[[ $object == stats ]] && { flotilla -t stats 2>/dev/null | cut -f2; return; } ;;
	policy)	[[ $position -gt 2 ]] && { echo wrr lb lard lard/r lc chbl; return; } ;;
	max_outstanding) echo auto; return ;;
	serve)	echo mix event thread; return ;;
	deliver) echo event async sync; return ;;
	mode)	[[ $object == afpa ]] && { echo off softirq thread hybrid; return; }
		echo block page; return ;;
	protocol) [[ $object == afpa ]] && { echo http memcached; return; } ;;
	site)	[[ $object == cache ]] && { flotilla -t afpa site 2>/dev/null | cut -f1; return; } ;;
	ttl)	[[ $position -gt 3 ]] && { echo never 30s 10m 2h 1d; return; } ;;
	esac
	case $object-$command in
	node-)		echo show add set drain del help ;;
	node-show|node-del|node-delete|node-list) _flotilla_nodes ;;
	node-set)
		if [[ $position -eq 2 ]]; then
			_flotilla_nodes
		else
			echo weight role admin forward forward-address auth key
		fi ;;
	node-add)
		[[ $position -gt 2 ]] &&
			echo address port weight role admin forward forward-address auth key ;;
	local-)		echo show set help ;;
	local-set)	echo name address port insecure ;;
	service-)	echo show add del help ;;
	auth-)		echo key help ;;
	auth-key)	echo @files ;;
	conn-)		echo show move help ;;
	conn-move)
		if [[ $position -eq 2 ]]; then
			flotilla -t conn state forward 2>/dev/null | awk -F '\t' '{ print ($1 ~ /:/ ? "[" $1 "]" : $1) ":" $2 }'
		elif [[ $previous == node ]]; then
			_flotilla_nodes
		else
			echo node server --now --idle --wait
		fi ;;
	node-drain)
		if [[ $position -eq 2 || $previous == --to ]]; then
			_flotilla_nodes
		else
			echo --move --to --now --idle --wait --dry-run
		fi ;;
	conn-show)	echo node state client count ;;
	stats-*)	echo show room name nonzero --prometheus --http help ;;
	top-*)		echo interval count room socket --once help ;;
	policy-)	echo show set help ;;
	policy-show)	echo policy t_low t_high replication_seconds max_outstanding ;;
	policy-set)
		[[ $position -eq 2 ]] && echo wrr lb lard lard/r lc chbl
		echo t_low t_high replication_seconds max_outstanding ;;
	probe-*)	flotilla -t probe 2>/dev/null | cut -f1 ;;
	doctor-*)	echo problems help ;;
	monitor-*)	echo count timeout help ;;
	explain-*)	[[ $position -ge 2 ]] && echo socket ;;
	rebalance*)
		if [[ $previous == --by ]]; then
			echo connections load
		else
			echo --within --by --idle --wait --max --service --dry-run --explain help
		fi ;;
	takeover*)	echo --prepare --release --wait ;;
	migrate-)	echo policy explain admission help ;;
	migrate-policy) echo show set off stay simple hash size round-robin load delayed self admit= admit_base= admit_quota=1 admit_again= ;;
	migrate-admission) echo show ;;
	redirect-)	echo show set hint off explain help ;;
	redirect-set)	echo above queue hysteresis take hint off on auto ;;
	redirect-hint)	echo auto ;;
	process-)	echo move drain help ;;
	process-move)	echo --idle --wait --dry-run --no-tree; ps -eo pid= ;;
	process-drain)
		if [[ $previous == --to ]]; then
			_flotilla_nodes
		else
			echo --to --idle --wait --dry-run --no-tree; ps -eo pid=
		fi ;;
	apply-*)	echo --dry-run --keep @files ;;
	card-)		echo show export unexport set attach detach explain stats help ;;
	card-show)	echo exports disks ;;
	card-export)	[[ $position -gt 2 ]] && echo device nodes write shared unclaimed mount serve deliver policy host home_shift uuid ;;
	card-set)	[[ $position -gt 2 ]] && echo serve deliver ;;
	card-attach)
		if [[ $position -eq 2 ]]; then
			_flotilla_nodes
		elif [[ $position -gt 3 ]]; then
			echo write shared steal keep nolookup mode depth timeout retries fail_fast readahead uuid
		fi ;;
	card-detach)	echo force ;;
	afpa-)		echo show set site log help ;;
	afpa-log)	echo buffer count ;;
	afpa-set)	echo mode budget max_object stall policy remote ;;
	afpa-site)
		if [[ $position -eq 2 ]]; then
			echo show add del
		elif [[ $previous == del || $position -gt 3 ]]; then
			[[ ${COMP_WORDS[*]} == *" add "* ]] && echo protocol
			flotilla -t afpa site 2>/dev/null | cut -f1
		fi ;;
	cache-)		echo list put file update del query explain ttl ban ticket flush help ;;
	cache-list)	echo site host --remote ;;
	cache-put|cache-file|cache-update)
		if [[ $position -eq 3 ]]; then
			echo @files
		elif [[ $position -gt 3 ]]; then
			echo --automatic type ttl age header tag since site --remote
		else
			_flotilla_urls
		fi ;;
	cache-del)	echo --strict site --remote; _flotilla_urls ;;
	cache-explain)
		if [[ $position -eq 2 ]]; then
			_flotilla_urls
		else
			echo method header site --remote
		fi ;;
	cache-query|cache-ttl)
		if [[ $position -eq 2 ]]; then
			_flotilla_urls
		elif [[ $command == query || $position -gt 3 ]]; then
			echo site --remote
		else
			echo never 30s 10m 2h 1d
		fi ;;
	cache-ban)	echo --tag site --remote; _flotilla_urls ;;
	cache-flush)	echo site --remote ;;
	esac
}

_flotilla_nodes()
{
	flotilla -t node show 2>/dev/null | cut -f2
}

_flotilla_urls()
{
	flotilla -t cache list 2>/dev/null | awk -F '\t' '{ print $2 $3 }'
}

# Of files, which the shell quotes itself as it puts them into the line.
_flotilla_files()
{
	local files
	compopt -o filenames 2>/dev/null
	mapfile -t files < <(compgen -f -- "$1")
	COMPREPLY+=("${files[@]}")
}

_flotilla()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local i=1 object command text words word

	# Options come before the object.
	while [[ $i -lt $COMP_CWORD && ${COMP_WORDS[i]} == -* ]]; do
		[[ ${COMP_WORDS[i]} == -*b || ${COMP_WORDS[i]} == --batch ]] && ((i++))
		((i++))
	done
	COMPREPLY=()
	case $previous in
	-b|--batch)
		_flotilla_files "$current"
		return ;;
	esac
	if [[ $i -ge $COMP_CWORD ]]; then
		text='node local service auth conn stats top policy explain doctor probe monitor card afpa cache save apply process migrate redirect takeover rebalance help'
		[[ $current == -* ]] && text='--json --pretty --tabs --batch --version --help'
	else
		object=${COMP_WORDS[i]}
		command=${COMP_WORDS[i + 1]}
		[[ $((i + 1)) -ge $COMP_CWORD ]] && command=
		text=$(_flotilla_words "$object" "$command" "$previous" $((COMP_CWORD - i)))
	fi
	IFS=$' \t\n' read -r -d '' -a words <<<"$text"
	for word in "${words[@]}"; do
		if [[ $word == @files ]]; then
			_flotilla_files "$current"
		elif [[ $word == "$current"* ]]; then
			printf -v word %q "$word"
			COMPREPLY+=("$word")
		fi
	done
}

complete -F _flotilla flotilla
