MANPAGES += card/flotilla-card.8 card/card.4
