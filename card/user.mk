MANPAGES += card/flotilla-card.8
