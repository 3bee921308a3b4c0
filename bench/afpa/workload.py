# SPDX-License-Identifier: GPL-2.0
"""The files of a SPECweb96 server and how often each is asked for."""
import itertools
import math

KB = 1024
MB = 1024 * KB
WEIGHTS = (.35, .50, .14, .01)          # of the four classes of file
UNITS = (.1 * KB, KB, 10 * KB, 100 * KB)        # the smallest file of each class; the others are multiples
FILES = 9                               # of a class in a directory
ALPHA = 4.0                             # mean of the choice in a class; the benchmark does not state it


def choice(alpha=ALPHA):
    """Share of each file of a class: Poisson, cut off behind the last file and brought back to a sum of 1."""
    shares = [math.exp(-alpha) * alpha ** k / math.factorial(k) for k in range(FILES)]
    return [share / sum(shares) for share in shares]


class Workload:
    """
    @load:        requests a second that the server is built for; the number of directories follows from it
    @directories: each has one file of every bin, and all are asked for alike
    @bins:        (share of the requests, bytes of the file), by class and size
    """

    def __init__(self, load, alpha=ALPHA):
        self.load = load
        self.directories = int(10 * math.sqrt(load / 5))
        shares = choice(alpha)
        self.bins = [(weight * share, (k + 1) * unit)
                     for weight, unit in zip(WEIGHTS, UNITS) for k, share in enumerate(shares)]

    def data_set(self, cut=math.inf):
        """Bytes of all files smaller than @cut."""
        return self.directories * sum(size for _, size in self.bins if size < cut)

    def mean_request(self):
        return sum(share * size for share, size in self.bins)

    def draw(self, requests, random):
        """Requests as numbers of files; file number n is in bin n // directories."""
        sums = list(itertools.accumulate(share for share, _ in self.bins))
        drawn = random.choices(range(len(self.bins)), cum_weights=sums, k=requests)
        return [bin_ * self.directories + int(random.random() * self.directories) for bin_ in drawn]
