-- What the consumers of these examples write.

CREATE TABLE orders (
	id       text PRIMARY KEY,
	customer text NOT NULL,
	state    text NOT NULL
);

CREATE TABLE membership (
	customer text PRIMARY KEY,
	since    timestamptz NOT NULL DEFAULT now()
);

-- One row for each payment, and no unique constraint: that none is entered twice
-- is hookonce.take's to see to.
CREATE TABLE ledger (
	event_id text NOT NULL,
	order_id text NOT NULL,
	cents    integer NOT NULL
);
