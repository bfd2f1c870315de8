-- The schema of hookonce on SQLite, version 4: secrets that providers hand over.

-- Sources that take one secret until then. "replace" forgets the others with it.
CREATE TABLE hookonce_armed_source (
    source      TEXT    NOT NULL PRIMARY KEY,
    armed_until INTEGER NOT NULL,
    replace     INTEGER NOT NULL
) STRICT;

-- Whoever can read this table can sign as the provider.
CREATE TABLE hookonce_learned_secret (
    source     TEXT    NOT NULL,
    secret     TEXT    NOT NULL,
    learned_at INTEGER NOT NULL,
    PRIMARY KEY (source, secret)
) STRICT;

INSERT INTO hookonce_schema_migration (version, name, applied_at)
VALUES (4, 'secrets', CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
