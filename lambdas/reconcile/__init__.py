"""Looks after open tasks on a schedule: lost events, undelivered answers, stops that did not take (D7, D9)."""
