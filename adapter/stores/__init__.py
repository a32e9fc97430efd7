"""Record stores: where tasks are kept."""
