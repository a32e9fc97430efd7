def write_distribution(*a, **k):
    pass
