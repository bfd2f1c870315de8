package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

const maxVersion = 255 // bytes, see driver.ObjectVersion

const (
	// A row without a version is only a line.
	selectVersions = `SELECT object, source, version, shown FROM hookonce_object_version WHERE version <> x'' AND `

	keepVersion = `INSERT INTO hookonce_object_version (object, source, version, shown, applied_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (object) DO UPDATE SET
			source = excluded.source, version = excluded.version, shown = excluded.shown, applied_at = excluded.applied_at
		WHERE excluded.version > version`

	// versionsAtOnce keeps a query below SQLite's limit of parameters.
	versionsAtOnce = 1000
)

// Versions implements driver.Store.
func (s *Store) Versions(ctx context.Context, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	var found map[driver.Key]driver.ObjectVersion
	err := s.read(ctx, "reading versions", func(ctx context.Context, tx *sql.Tx) (err error) {
		found, err = versions(ctx, tx, objects)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// versions returns the known versions of objects.
func versions(ctx context.Context, q queryer, objects []driver.Key) (map[driver.Key]driver.ObjectVersion, error) {
	found := make(map[driver.Key]driver.ObjectVersion)
	for len(objects) > 0 {
		some := objects[:min(len(objects), versionsAtOnce)]
		objects = objects[len(some):]
		rows, err := q.QueryContext(ctx, selectVersions+keyIn(`object`, len(some)), keyArgs(some)...)
		all, err := collect(rows, err, func(v *driver.ObjectVersion) error {
			var object []byte
			err := rows.Scan(&object, &v.Source, &v.Version, &v.Shown)
			copy(v.Object[:], object)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, v := range all {
			found[v.Object] = v
		}
	}
	return found, nil
}

func checkVersion(v *driver.ObjectVersion) error {
	if len(v.Version) > maxVersion || len(v.Shown) > maxVersion || !driver.IsText(v.Shown) || !driver.IsText(v.Source) {
		return fmt.Errorf("%w: a version is longer than %d bytes, or its text is not valid UTF-8 or holds a NUL",
			driver.ErrBadRow, maxVersion)
	}
	return nil
}

// keepVersion keeps v if it is higher than the stored version.
func (t *writeTx) keepVersion(v *driver.ObjectVersion) error {
	_, err := t.exec(keepVersion, v.Object[:], v.Source, blob(v.Version), v.Shown, t.now)
	return err
}
