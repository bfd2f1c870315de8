package pgstore

// PostgreSQL stores infinite times and years beyond 9999. A time.Time and JSON cannot hold them, and
// one such row would fail the statement for all rows. So statements read times through these
// expressions, which bound them. They stand in SELECT lists only: conditions and orders use the bare
// columns, as the indexes do.

// bounded is a column of times that is never null.
func bounded(column string) string {
	return "least(greatest(" + column + ", '0001-01-01 00:00:00+00'), '9999-12-31 23:59:59.999999+00')"
}

// boundedOrNull is a column of times that may be null. Null stays null.
func boundedOrNull(column string) string {
	return "CASE WHEN " + column + " IS NOT NULL THEN " + bounded(column) + " END"
}
