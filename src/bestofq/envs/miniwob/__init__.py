"""MiniWoB++ (Shi et al. 2017; Liu et al. 2018, arXiv 1802.08802): 130 small web tasks whose pages score themselves.

The Farama Foundation keeps them as the package `miniwob`. Only its HTML is used, in a real Chromium.
"""
