package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// BinaryDB is a DB whose client library sends parameters that are encoded already.
type BinaryDB interface {
	DB
	// QueryBinary runs a statement that commits by itself, and calls row for each row of its result.
	// Parameters and results are in PostgreSQL's binary format. Its errors are those of Query, or
	// ErrNotBinary. The values of a row are valid until row returns.
	QueryBinary(ctx context.Context, s *Statement, encode func(*Parameters), row func(values [][]byte) error) error
}

// ErrNotBinary means that QueryBinary cannot work on its present connections, such as those through a
// pooler. Nothing was sent.
var ErrNotBinary = errors.New("the connection takes no encoded parameters")

// Statement is a statement with the name of its prepared form in a session.
type Statement struct{ Name, SQL string }

// newStatement names a statement by its text: sessions that several versions of the program share behind
// a pooler never confuse their statements.
func newStatement(sql string) Statement {
	sum := sha256.Sum256([]byte(sql))
	return Statement{Name: "hookonce_" + hex.EncodeToString(sum[:12]), SQL: sql}
}

// The numbers of types (https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat).
const (
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidTimestamptz = 1184
)

const (
	// null is the length that stands for NULL.
	null = -1
	// arrayHeader is the size of the header of an array.
	arrayHeader = 20
	// postgresEpoch is 2000-01-01 in microseconds of Unix time: the zero of a timestamptz.
	postgresEpoch = 946_684_800_000_000
)

// Parameters are the parameters of a statement in PostgreSQL's binary format. A connection uses their
// memory again for its next statement.
type Parameters struct {
	values [][]byte
	buf    []byte
	from   int // where the value in progress begins
}

// Values returns the parameters. nil stands for NULL.
func (p *Parameters) Values() [][]byte { return p.values }

// Size returns the bytes of all parameters with their lengths.
func (p *Parameters) Size() int {
	size := 0
	for _, v := range p.values {
		size += 4 + len(v)
	}
	return size
}

// Forget empties p, and keeps at most limit bytes of its memory.
func (p *Parameters) Forget(limit int) {
	clear(p.values)
	p.values, p.buf, p.from = p.values[:0], p.buf[:0], 0
	if cap(p.buf) > limit {
		p.buf = nil
	}
}

// reserve makes room for values of size bytes, so that none of them moves.
func (p *Parameters) reserve(size int) {
	if cap(p.buf) < size {
		p.buf = make([]byte, 0, size+size/4)
	}
}

// end ends the value in progress.
func (p *Parameters) end() {
	p.values = append(p.values, p.buf[p.from:len(p.buf):len(p.buf)])
	p.from = len(p.buf)
}

func (p *Parameters) text(v string) {
	p.buf = append(p.buf, v...)
	p.end()
}

func (p *Parameters) bytea(v []byte) {
	p.buf = append(p.buf, v...)
	p.end()
}

func (p *Parameters) int2(v int16) {
	p.buf = binary.BigEndian.AppendUint16(p.buf, uint16(v))
	p.end()
}

func (p *Parameters) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	p.buf = append(p.buf, b)
	p.end()
}

// time adds a timestamptz; nil is NULL.
func (p *Parameters) time(t *time.Time) {
	if t == nil {
		p.values = append(p.values, nil)
		return
	}
	p.buf = appendTime(p.buf, t)
	p.end()
}

// array begins an array of n elements, which the element methods add. The caller ends it.
func (p *Parameters) array(oid, n int, nulls bool) {
	p.buf = appendInt(p.buf, 1) // dimension
	if nulls {
		p.buf = appendInt(p.buf, 1)
	} else {
		p.buf = appendInt(p.buf, 0)
	}
	p.buf = appendInt(p.buf, oid)
	p.buf = appendInt(p.buf, n)
	p.buf = appendInt(p.buf, 1) // the first index
}

func (p *Parameters) byteaElement(v []byte) { p.buf = append(appendInt(p.buf, len(v)), v...) }

func (p *Parameters) textElement(v string) { p.buf = append(appendInt(p.buf, len(v)), v...) }

func (p *Parameters) int2Element(v int16) {
	p.buf = binary.BigEndian.AppendUint16(appendInt(p.buf, 2), uint16(v))
}

func (p *Parameters) int4Element(v int32) { p.buf = appendInt(appendInt(p.buf, 4), int(v)) }

func (p *Parameters) int8Element(v int64) {
	p.buf = binary.BigEndian.AppendUint64(appendInt(p.buf, 8), uint64(v))
}

func (p *Parameters) timeElement(t *time.Time) {
	if t == nil {
		p.buf = appendInt(p.buf, null)
		return
	}
	p.buf = appendTime(appendInt(p.buf, 8), t)
}

func appendInt(b []byte, v int) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendTime(b []byte, t *time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixMicro()-postgresEpoch))
}

var errBinary = errors.New("the server sent a value that cannot be decoded")

func decodeBool(v []byte) (bool, error) {
	if len(v) != 1 {
		return false, errBinary
	}
	return v[0] != 0, nil
}

func decodeInt4(v []byte) (int, error) {
	if len(v) != 4 {
		return 0, errBinary
	}
	return int(int32(binary.BigEndian.Uint32(v))), nil
}

func decodeInt8(v []byte) (int64, error) {
	if len(v) != 8 {
		return 0, errBinary
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

// decodeByteaArray calls each for every element of a bytea[] of one dimension without NULL.
func decodeByteaArray(v []byte, each func([]byte)) error {
	if v == nil || len(v) == 12 { // NULL, or no dimension
		return nil
	}
	if len(v) < arrayHeader {
		return errBinary
	}
	n := int(binary.BigEndian.Uint32(v[12:]))
	v = v[arrayHeader:]
	for range n {
		if len(v) < 4 {
			return errBinary
		}
		size := int(int32(binary.BigEndian.Uint32(v)))
		if size < 0 || len(v)-4 < size {
			return errBinary
		}
		each(v[4 : 4+size])
		v = v[4+size:]
	}
	return nil
}
