-- Tables of the example consumers.

CREATE TABLE orders (
	id       text PRIMARY KEY,
	customer text NOT NULL,
	state    text NOT NULL
);

CREATE TABLE membership (
	customer text PRIMARY KEY,
	since    timestamptz NOT NULL DEFAULT now()
);

-- One row for each payment. No unique constraint: hookonce.take prevents double
-- entries.
CREATE TABLE ledger (
	event_id text NOT NULL,
	order_id text NOT NULL,
	cents    integer NOT NULL
);
