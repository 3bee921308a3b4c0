#!/bin/bash
# kernel: stock
ip netns add litter
