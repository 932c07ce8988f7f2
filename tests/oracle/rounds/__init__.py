"""The seven methods of LDP-IDS stated once more, plainly, slowly and over rationals.

They share no code with the coordinator: written from the definitions of the methods (Ren et al.,
LDP-IDS: Local Differential Privacy for Infinite Data Streams, SIGMOD 2022, with its two misprints
mended: the dissimilarity of LBD costs epsilon/(2w), and a variance is a mean over the domain).
"""
