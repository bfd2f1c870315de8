package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// writeBinary is write for a statement of the work pool that runs all the time. Where the client library can, it
// is prepared once for each connection, and both sides skip the library's own encoding, which takes several times as long.
func (s *Store) writeBinary(ctx context.Context, op string, each func(Rows) error, st *Statement, args ...any) error {
	if s.workBinary != nil {
		encode := func(p *Parameters) { p.add(args) }
		err := s.workBinary.QueryBinary(ctx, st, encode, func(values [][]byte) error { return each(binaryRow(values)) })
		if !errors.Is(err, ErrNotBinary) {
			return rowFailed(s.pools.Work, op, err)
		}
	}
	return rowFailed(s.pools.Work, op, scan(ctx, s.pools.Work, each, st.SQL, args...))
}

// add adds arguments of a statement.
func (p *Parameters) add(args []any) {
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			p.text(v)
		case bool:
			p.bool(v)
		case int32:
			p.buf = appendInt(p.buf, int(v))
			p.end()
		case int64:
			p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v))
			p.end()
		case *time.Time:
			p.time(v)
		case []string:
			addArray(p, oidText, v, (*Parameters).textElement)
		case [][]byte:
			addArray(p, oidBytea, v, (*Parameters).byteaElement)
		case []int32:
			addArray(p, oidInt4, v, (*Parameters).int4Element)
		case []int64:
			addArray(p, oidInt8, v, (*Parameters).int8Element)
		default:
			panic(fmt.Sprintf("pgstore: an argument of type %T", arg))
		}
	}
}

func addArray[T any](p *Parameters, oid int, all []T, element func(*Parameters, T)) {
	p.array(oid, len(all), false)
	for _, v := range all {
		element(p, v)
	}
	p.end()
}

// binaryRow is a row in the binary format, as Rows that stand at it.
type binaryRow [][]byte

// Next implements Rows.
func (binaryRow) Next() bool { return false }

// Err implements Rows.
func (binaryRow) Err() error { return nil }

// Close implements Rows.
func (binaryRow) Close() {}

// Scan implements Rows. Only a []byte may be NULL.
func (r binaryRow) Scan(targets ...any) error {
	if len(targets) != len(r) {
		return errBinary
	}
	for i, target := range targets {
		if err := scanBinary(target, r[i]); err != nil {
			return err
		}
	}
	return nil
}

func scanBinary(target any, v []byte) (err error) {
	if to, ok := target.(*[]byte); ok {
		if *to = nil; v != nil {
			*to = append(make([]byte, 0, len(v)), v...)
		}
		return nil
	}
	if v == nil {
		return errBinary
	}
	switch to := target.(type) {
	case *string:
		*to = string(v)
	case *bool:
		*to, err = decodeBool(v)
	case *int32:
		var n int
		n, err = decodeInt4(v)
		*to = int32(n)
	case *int64:
		*to, err = decodeInt8(v)
	case *time.Time:
		var micros int64
		micros, err = decodeInt8(v)
		*to = time.UnixMicro(micros + postgresEpoch)
	default:
		panic(fmt.Sprintf("pgstore: a column for a %T", target))
	}
	return err
}
