"""Published figures of chips beside ours: networks as shapes, their timing, and what was published of them."""
