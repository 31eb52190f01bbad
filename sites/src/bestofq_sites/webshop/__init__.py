"""WebShop (Yao et al. 2022): one page model, served as a web site and as text."""
