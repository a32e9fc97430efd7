"""What the adapter costs, as ratios that hold on any machine: `python -m bench.run`."""
