"""MiniWoB++: some 130 small web tasks whose pages score themselves, in a real Chromium.

Shi et al. 2017, World of Bits (ICML); Liu et al. 2018, Workflow-Guided Exploration (ICLR, arXiv 1802.08802); kept by
the Farama Foundation as the package `miniwob`, of which only the HTML is used.
"""
