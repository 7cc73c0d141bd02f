"""Who may go first without making anybody late: run times, bookings, reservations."""
