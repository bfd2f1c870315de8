package locate

import (
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkRead reads three fields of an ordinary event; for comparison it also validates the
// document with encoding/json.
func BenchmarkRead(b *testing.B) {
	f := Fields{ID: mustParse(b, "body:id"), Type: mustParse(b, "body:type"), Time: mustParse(b, "body:created")}
	body := []byte(`{"id":"evt_1","object":"event","created":1760000000,"type":"invoice.paid","data":{"object":{` +
		strings.TrimSuffix(strings.Repeat(`"key":"some text","n":12345,"list":[1,true,null],`, 22), ",") + `}}}`)
	in := &Input{Body: body}
	b.Run("encoding_json_valid", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if !json.Valid(body) {
				b.Fatal("not valid")
			}
		}
	})
	b.Run("fields", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			r := f.Reader(in)
			if _, _, _, err := r.Read(nil, nil); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	})
}
