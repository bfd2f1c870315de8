package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// higherSQL ends an INSERT into object_version AS v: the higher version stays.
const higherSQL = `
	ON CONFLICT (object) DO UPDATE
	SET version = excluded.version, shown = excluded.shown, applied_at = excluded.applied_at
	WHERE excluded.version > v.version`

// versionArgs are versions as arguments of statements.
type versionArgs struct {
	objects, versions [][]byte
	sources, shown    []string
}

func newVersionArgs() *versionArgs {
	return &versionArgs{objects: [][]byte{}, versions: [][]byte{}, sources: []string{}, shown: []string{}}
}

func (a *versionArgs) add(v *driver.ObjectVersion) {
	a.objects, a.versions = append(a.objects, slices.Clone(v.Object[:])), append(a.versions, notNil(v.Version))
	a.sources, a.shown = append(a.sources, v.Source), append(a.shown, plain(v.Shown))
}

// A row without a version exists only for its lock: nothing was applied yet.
const (
	versionsSQL = `
SELECT object, source, version, shown FROM {schema}.object_version
WHERE object = ANY ($1::bytea[]) AND version <> ''`

	// lockableVersionsSQL makes sure that each object has a row, in the order of their keys: of two
	// transactions that meet at a new object, one waits. It returns the lock_timeout from before.
	lockableVersionsSQL = `
WITH setting AS MATERIALIZED (
	SELECT b.lock_before, set_config('lock_timeout', $3::text, true) AS bound
	FROM (SELECT current_setting('lock_timeout') AS lock_before OFFSET 0) b
), added AS (
	INSERT INTO {schema}.object_version (object, source, version, shown, applied_at)
	SELECT o.object, $2::text, '', '', clock_timestamp()
	FROM setting
	CROSS JOIN unnest($1::bytea[]) AS o (object)
	WHERE setting.bound <> ''
	ORDER BY o.object
	ON CONFLICT (object) DO NOTHING
	RETURNING object
)
SELECT lock_before, (SELECT count(*) FROM added) FROM setting`

	lockVersionsSQL = `
SELECT object, source, version, shown FROM {schema}.object_version
WHERE object = ANY ($1::bytea[])
ORDER BY object
FOR UPDATE`

	setLockTimeoutSQL = `SELECT set_config('lock_timeout', $1::text, true)`
)

// Versions implements [driver.Store].
func (s *Store) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	versions := make(map[driver.Key]driver.ObjectVersion, len(objects))
	if len(objects) == 0 {
		return versions, nil
	}
	err := read(ctx, s.pools.Work, "reading versions", eachVersion(versions), s.sql.versions, keyArgs(objects))
	if err != nil {
		return nil, err
	}
	return versions, nil
}

// eachVersion collects versions. An empty version counts as none.
func eachVersion(versions map[driver.Key]driver.ObjectVersion) func(Rows) error {
	return func(r Rows) error {
		var object []byte
		var v driver.ObjectVersion
		if err := r.Scan(&object, &v.Source, &v.Version, &v.Shown); err != nil {
			return err
		}
		v.Object = driver.Key(object)
		if len(v.Version) > 0 {
			versions[v.Object] = v
		}
		return nil
	}
}

// versionLockTimeout bounds the wait for runs with the same objects.
const versionLockTimeout = "5s"

// Versions implements [driver.Run].
func (r *Run) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	versions := make(map[driver.Key]driver.ObjectVersion, len(objects))
	if len(objects) == 0 {
		return versions, nil
	}
	if err := r.usable(); err != nil {
		return nil, fmt.Errorf("locking versions: %w", err)
	}
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b driver.Key) int { return bytes.Compare(a[:], b[:]) })
	sorted = slices.Compact(sorted)
	if err := r.lockVersions(ctx, sorted, versions); err != nil {
		return nil, fmt.Errorf("locking versions: %w", r.failure(err))
	}
	return versions, nil
}

// lockVersions locks the rows, and retries if pruning removed one meanwhile.
func (r *Run) lockVersions(ctx context.Context, sorted []driver.Key, versions map[driver.Key]driver.ObjectVersion) error {
	source := ""
	if len(r.events) > 0 {
		source = r.events[0].Source
	}
	keys, before := keyArgs(sorted), ""
	for range maxRounds {
		err := scan(ctx, r.tx, func(rows Rows) error {
			var lockBefore string
			var added int64
			err := rows.Scan(&lockBefore, &added)
			if before == "" {
				before = lockBefore
			}
			return err
		}, r.store.sql.lockableVersions, keys, source, versionLockTimeout)
		if err != nil {
			return err
		}
		clear(versions)
		locked, each := 0, eachVersion(versions)
		err = scan(ctx, r.tx, func(rows Rows) error {
			locked++
			return each(rows)
		}, r.store.sql.lockVersions, keys)
		if err != nil {
			return err
		}
		if locked == len(sorted) {
			return scan(ctx, r.tx, noRows, setLockTimeoutSQL, before)
		}
	}
	return errVersionsPruned
}
