package pgstore

import (
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
var (
	versionsSQL = statement(`
SELECT object, source, version, shown FROM {schema}.object_version
WHERE object = ANY ($1::bytea[]) AND version <> ''`)

	// lockableVersionsSQL makes sure that each object has a row, in a commit of its own, so that no
	// run has to wait for the insertion of another one. Losing it costs nothing.
	lockableVersionsSQL = statement(`
INSERT INTO {schema}.object_version (object, source, version, shown, applied_at)
SELECT o.object, $2::text, '', '', clock_timestamp()
FROM set_config('synchronous_commit', 'off', true) AS setting
CROSS JOIN unnest($1::bytea[]) AS o (object)
WHERE setting <> ''
ORDER BY o.object
ON CONFLICT (object) DO NOTHING`)

	lockVersionsSQL = statement(`
SELECT object, source, version, shown FROM {schema}.object_version
WHERE object = ANY ($1::bytea[])
FOR UPDATE SKIP LOCKED`)

	setLockTimeoutSQL = `SELECT set_config('lock_timeout', $1::text, true)`
)

// Versions implements [driver.Store].
func (s *Store) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	versions := make(map[driver.Key]driver.ObjectVersion, len(objects))
	if len(objects) == 0 {
		return versions, nil
	}
	err := read(ctx, s.pools.Work, "reading versions", eachVersion(versions), s.text(versionsSQL), keyArgs(objects))
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

// Versions implements [driver.Run].
func (r *Run) Versions(ctx context.Context, objects []driver.Key) (applied map[driver.Key]driver.ObjectVersion, busy []driver.Key, err error) {
	applied = make(map[driver.Key]driver.ObjectVersion, len(objects))
	if len(objects) == 0 {
		return applied, nil, nil
	}
	if err := r.usable(); err != nil {
		return nil, nil, fmt.Errorf("locking versions: %w", err)
	}
	busy, err = r.lockVersions(ctx, objects, applied)
	// They are locked, or have no row yet.
	rowless := slices.DeleteFunc(slices.Clone(busy), func(o driver.Key) bool { return slices.Contains(r.lockable, o) })
	if err == nil && len(rowless) > 0 {
		source := ""
		if len(r.events) > 0 {
			source = r.events[0].Source
		}
		s := r.store
		if err := write(ctx, s.pools.Receive, "locking versions", noRows, s.text(lockableVersionsSQL), keyArgs(rowless), source); err != nil {
			return nil, nil, err
		}
		r.lockable = append(r.lockable, rowless...)
		busy, err = r.lockVersions(ctx, busy, applied)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("locking versions: %w", r.failure(err))
	}
	return applied, busy, nil
}

// lockVersions locks the rows of objects, adds their versions to applied, and returns the objects that
// it could not lock.
func (r *Run) lockVersions(ctx context.Context, objects []driver.Key, applied map[driver.Key]driver.ObjectVersion) (left []driver.Key, err error) {
	locked := make(map[driver.Key]bool, len(objects))
	err = scan(ctx, r.tx, func(rows Rows) error {
		var object []byte
		var v driver.ObjectVersion
		if err := rows.Scan(&object, &v.Source, &v.Version, &v.Shown); err != nil {
			return err
		}
		v.Object = driver.Key(object)
		locked[v.Object] = true
		if len(v.Version) > 0 {
			applied[v.Object] = v
		}
		return nil
	}, r.store.text(lockVersionsSQL), keyArgs(objects))
	for _, object := range objects {
		if !locked[object] {
			left = append(left, object)
		}
	}
	return left, err
}
