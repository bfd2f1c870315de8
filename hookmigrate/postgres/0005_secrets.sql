-- The schema of hookonce on PostgreSQL, version 5: secrets that providers hand over.

-- Sources that take one secret until then. "replace" forgets the others with it.
CREATE TABLE {schema}.armed_source (
	source      text PRIMARY KEY,
	armed_until timestamptz NOT NULL,
	replace     boolean NOT NULL
);

-- Whoever can read this table can sign as the provider: grant it to nobody.
CREATE TABLE {schema}.learned_secret (
	source     text NOT NULL,
	secret     text NOT NULL CHECK (octet_length(secret) BETWEEN 1 AND 512),
	learned_at timestamptz NOT NULL,
	PRIMARY KEY (source, secret)
);

INSERT INTO {schema}.schema_migration (version, name) VALUES (5, 'secrets');
