# SPDX-License-Identifier: GPL-2.0
# Options of flotilla-follow and flotilla-announce, files, and the beginnings of sources.

_flotilla_follow()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words
	COMPREPLY=()
	case $previous in
	--against|--state|--cacert|--cert|--key|--token)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return ;;
	--log)		words='text json' ;;
	--allow)	words='role forward forward-address' ;;
	--set|--within|--max|--every|--api|--name|--address|--lease) return ;;
	*)
		words='file: dns: etcd: kube:'
		[[ $1 == *announce ]] && words=etcd:
		if [[ $current == -* ]]; then
			words='--once --dry-run --against --allow-empty --adopt --set --allow --within --max --every --state'
			[[ $1 == *announce ]] && words='--name --address --set --lease --once'
			words+=' --cacert --cert --key --token --log --version --help'
			[[ $1 == *announce ]] || words+=' --api'
		else
			compopt -o nospace 2>/dev/null
		fi ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _flotilla_follow flotilla-follow flotilla-announce
