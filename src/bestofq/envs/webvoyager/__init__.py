"""WebVoyager (He et al. 2024): tasks on live sites, from the file that the user gives."""
