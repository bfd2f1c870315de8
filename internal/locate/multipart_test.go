package locate

import (
	"crypto/sha256"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"
)

// parts returns a body in multipart/form-data. Each part is its Content-Disposition and its value.
func parts(all ...[2]string) string {
	var b strings.Builder
	for _, p := range all {
		b.WriteString("--b0\r\nContent-Disposition: " + p[0] + "\r\n\r\n" + p[1] + "\r\n")
	}
	return b.String() + "--b0--\r\n"
}

// TestMultipart reads fields of a body in multipart/form-data.
func TestMultipart(t *testing.T) {
	t.Parallel()
	id := [2]string{`form-data; name="id"`, "a b+c"}
	file := [2]string{`form-data; name="attachment-1"; filename="a.txt"`, "id=x\r\n--b1\r\n\x00\xff"}
	comment := "<x><!--\r\nform\r\n--></x>\r\n"
	many := strings.Repeat("--b0\r\nContent-Disposition: form-data; name=x\r\n\r\n\r\n", maxFormParts)
	for _, c := range []struct{ name, at, want, body string }{
		{"a field", "form:id", "a b+c", parts(id)},
		{"a file behind", "form:id", "a b+c", parts(id, file)},
		{"a file in front", "form:id", "a b+c", parts(file, id)},
		{"a line break before", "form:id", "a b+c", "\r\n" + parts(id)},
		{"another boundary", "form:id", "a b+c", strings.ReplaceAll(parts(id), "--b0", "------WebKitFormBoundary7MA4YWxkTrZu0gW")},
		{"a type of its own", "form:id", "a", parts([2]string{"form-data; name=id\r\nContent-Type: text/plain; charset=utf-8", "a"})},
		{"blanks behind the first boundary", "form:id", "a b+c", strings.Replace(parts(id, file), "--b0", "--b0 \t", 1)},
		{"blanks behind a later boundary", "form:id", "a b+c", strings.Replace(parts(file, id), "\n--b0\r", "\n--b0 \r", 1)},
		{"a preamble", "form:id", "a b+c", "A form -- with\r\na preamble --b1\r\n\r\n" + parts(id)},
		{"line breaks before", "form:id", "a b+c", "\r\n\r\n" + parts(id)},
		{"a byte order mark before", "form:id", "a b+c", "\ufeff" + parts(id)},
		{"too long a preamble", "form:id", "absent", strings.Repeat("a", maxPreamble) + "\r\n" + parts(id)},
		{"XML with a comment", "form:id | sha256:body", fmt.Sprintf("%x", sha256.Sum256([]byte(comment))), comment},
		{"plain encodings", "form:id", "a", parts([2]string{"form-data; name=id\r\nContent-Transfer-Encoding: 8BIT", "a"})},
		{"base64", "form:id", "malformed", parts([2]string{"form-data; name=id\r\nContent-Transfer-Encoding: base64", "YQ=="})},
		{"quoted-printable", "form:id", "malformed", parts([2]string{"form-data; name=id\r\nContent-Transfer-Encoding: quoted-printable", "=61"})},
		{"two encodings", "form:id", "malformed", parts([2]string{"form-data; name=id\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64", "YQ=="})},
		{"another field in base64", "form:id", "a b+c", parts(id, [2]string{"form-data; name=x\r\nContent-Transfer-Encoding: base64", "YQ=="})},
		{"JSON in a field", "sha256:form:json", fmt.Sprintf("%x", sha256.Sum256([]byte(`{"a":1}`))), parts([2]string{`form-data; name="json"`, `{"a":1}`})},
		{"a name in UTF-8", "form:größe", "a", parts([2]string{`form-data; name="größe"`, "a"})},
		{"a name with brackets", "form:event[id]", "a", parts([2]string{`form-data; name="event[id]"`, "a"})},
		{"the alternative", "form:no | form:id", "a b+c", parts(id)},
		{"no such field", "form:id", "absent", parts(file)},
		{"twice", "form:id", "malformed", parts(id, id)},
		{"a file of that name", "form:attachment-1", "malformed", parts(file)},
		{"a file of that name, too", "form:id", "malformed", parts(id, [2]string{`form-data; name="id"; filename=""`, "a"})},
		{"a name of its own extension", "form:id", "malformed", parts([2]string{`form-data; name="x"; name*=utf-8''id`, "a"})},
		{"two names", "form:id", "malformed", parts([2]string{`form-data; name="id"; name="x"`, "a"})},
		{"two headers", "form:id", "malformed", parts([2]string{"form-data; name=id\r\nContent-Disposition: form-data; name=x", "a"})},
		{"a part without a name", "form:id", "malformed", parts(id, [2]string{"form-data", "a"})},
		{"no form data", "form:id", "malformed", parts([2]string{`attachment; name="id"`, "a"})},
		{"cut off behind a part", "form:id", "malformed", strings.TrimSuffix(parts(id, file), "--b0--\r\n")},
		{"cut off behind a boundary", "form:id", "malformed", strings.TrimSuffix(parts(id, file), "--\r\n") + "\r\n"},
		{"cut off in a boundary", "form:id", "malformed", strings.TrimSuffix(parts(id, file), "--\r\n")},
		{"cut off in the last boundary", "form:id", "malformed", strings.TrimSuffix(parts(id, file), "-\r\n")},
		{"cut off behind it", "form:id", "a b+c", strings.TrimSuffix(parts(id, file), "\r\n")},
		{"text behind it", "form:id", "a b+c", parts(id) + "--b0\r\nContent-Disposition: form-data; name=id\r\n\r\nx"},
		{"a folded header", "form:id", "a", parts([2]string{"form-data;\r\n\tname=\"id\"\r\nContent-Type: text/plain;\r\n charset=utf-8", "a"})},
		{"other letters of a header", "form:id", "a", strings.ReplaceAll(parts([2]string{`Form-Data;NAME="id"`, "a"}), "Content-D", "content-d")},
		{"a form in a form", "form:id", "a b+c", parts([2]string{"form-data; name=files\r\nContent-Type: multipart/mixed; boundary=b1", strings.ReplaceAll(parts([2]string{`form-data; name="id"`, "x"}), "b0", "b1")}, id)},
		{"a field of a form in it", "form:id", "absent", parts([2]string{"form-data; name=files\r\nContent-Type: multipart/mixed; boundary=b1", strings.ReplaceAll(parts(id), "b0", "b1")})},
		{"a boundary that begins alike", "form:id", "a b+c", parts([2]string{"form-data; name=x; filename=a", "--b0x\r\nContent-Disposition: form-data; name=id\r\n\r\nx\r\n--b0x--"}, id)},
		{"70 characters of a boundary", "form:id", "a b+c", strings.ReplaceAll(parts(id), "b0", strings.Repeat("b", 70))},
		{"71 characters of a boundary", "form:id", "absent", strings.ReplaceAll(parts(id), "b0", strings.Repeat("b", 71))},
		{"odd characters of a boundary", "form:id", "a b+c", strings.ReplaceAll(parts(id), "b0", "'()+_,-./:=? x")},
		{"another field in Latin-1", "form:id", "a b+c", parts([2]string{"form-data; name=x\r\nContent-Type: text/plain; charset=iso-8859-1", "\xe4"}, id)},
		{"another name in Latin-1", "form:id", "a b+c", parts([2]string{"form-data; name=\"\xe4\"", "x"}, id)},
		{"a field in Latin-1", "form:id", "malformed", parts([2]string{"form-data; name=id\r\nContent-Type: text/plain; charset=iso-8859-1", "\xe4"})},
		{"its hash", "sha256:form:id", fmt.Sprintf("%x", sha256.Sum256([]byte("\xe4"))), parts([2]string{"form-data; name=id", "\xe4"})},
		{"a field for the charset", "form:id", "a b+c", parts([2]string{`form-data; name="_charset_"`, "utf-8"}, id)},
		{"another name of RFC 2231", "form:id", "malformed", parts(id, [2]string{"form-data; name*=utf-8''gr%C3%B6%C3%9Fe", "x"})},
		{"another name of RFC 2047", "form:id", "a b+c", parts(id, [2]string{`form-data; name="=?utf-8?q?id?="`, "x"})},
		{"names with signs", "form:id", "a b+c", parts([2]string{`form-data; name="id[]"`, "x"}, [2]string{`form-data; name="ID"`, "x"}, [2]string{`form-data; name="i%64"`, "x"}, id)},
		{"line feeds alone", "form:id", "absent", strings.ReplaceAll(parts(id), "\r", "")},
		{"cut off in a part", "form:id", "malformed", parts(id, file)[:150]},
		{"an empty field", "form:id", "malformed", parts([2]string{`form-data; name="id"`, ""})},
		{"a line break in an id", "form:id", "malformed", parts([2]string{`form-data; name="id"`, "a\r\nb"})},
		{"the most parts", "form:id", "absent", many + "--b0--"},
		{"too many parts", "form:id", "malformed", many + parts(id)},
		{"too long a field", "sha256:form:id", "malformed", parts([2]string{`form-data; name="id"`, strings.Repeat("a", maxFormField+1)})},
		{"a byte order mark before an urlencoded form", "form:id", "a", "\ufeffid=a&b=c"},
		{"a byte order mark before a query", "query:id", "absent", "\ufeffid=a"},
		{"dashes in a form", "form:--id", "a", "--id=a&b=c"},
		{"a query is never multipart", "query:id", "absent", parts(id)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			value, err := mustParse(t, c.at).Eval(&Input{Body: []byte(c.body), RawQuery: c.body})
			wantValue(t, value, err, c.want)
		})
	}
}

// TestMultipartFiles has parts with a file name in every spelling. Each is a file, never a field, and none
// refuses the form.
func TestMultipartFiles(t *testing.T) {
	t.Parallel()
	id := [2]string{`form-data; name="id"`, "a"}
	for _, params := range []string{
		`name="x"; filename="a.txt"`, `name="x"; FileName=a.txt`, `name="x" ;filename = "a"`, `name="x"; filename`, `name="x"; filename=`,
		`name="x"; filename*=UTF-8''%c3%a4.txt`, `name="x"; filename*=iso-8859-1''%a3.txt`, `name="x"; filename*=UTF-8''%zz`, `name="x"; filename*=`,
		`name="x"; filename*0="a"; filename*1="b"`, `name="x"; filename*1*=%zz`, `name="x"; filename*0*=utf-8''a`,
		`name="x"; filename="the "best".pdf"`, `name="x"; filename="a\"`, `name="x"; filename=a; filename=b`, `name="x"; filename=my file.txt`,
		`name="x"; filename="name*=utf-8''y"`, `name="x"; filename="; name="y""`, `name="x"; size=1; filename="a"b"`,
		`filename="a.txt"; name="x"`, `filename*=UTF-8''%zz; name="x"`,
	} {
		file := [2]string{"form-data; " + strings.ReplaceAll(params, `"x"`, `"id"`), "b"}
		if _, _, err := MultipartField([]byte(parts(file)), "id"); err == nil {
			t.Errorf("%s: it is a field", file[0])
		}
		file[0] = "form-data; " + params
		value, found, err := MultipartField([]byte(parts(file, id)), "id")
		if value != "a" || found != 1 || err != nil {
			t.Errorf("%s: beside it the field is %q, %d times, %v", file[0], value, found, err)
		}
	}
	// Here the name is unclear, too, and nothing tells that another reader finds it.
	for _, params := range []string{`filename="the "best".pdf"; name="id"`, `filename=my file.txt; name="id"`, `filename=a; filename=b; name="id"`} {
		value, found, err := MultipartField([]byte(parts([2]string{"form-data; " + params, "b"}, id)), "id")
		if value != "a" || found != 1 || err != nil {
			t.Errorf("%s: beside it the field is %q, %d times, %v", params, value, found, err)
		}
	}
	for _, params := range []string{
		`name="the "best""`, `name="id`, `name="x\"; filename="a"`, `name=a"b; filename="x"`, `name="x"; size="; filename="a"`, `name=my id`, `name="x"; name*=utf-8''id; filename="a"`,
		`name="x"; name*0=id; filename=a`, `name="x"; filenames="a"b"`, `name="x"; y="z`,
	} {
		if _, _, err := MultipartField([]byte(parts(id, [2]string{"form-data; " + params, "b"})), "id"); err == nil {
			t.Errorf("%s: the name passes", params)
		}
	}
}

// FuzzMultipart compares the fields with those of net/http's reader.
func FuzzMultipart(f *testing.F) {
	f.Add(parts([2]string{`form-data; name="id"`, "a"}, [2]string{`form-data; name="f"; filename="x"`, "b"}), "id")
	for _, more := range []string{`; filename*=UTF-8''%zz`, `; filename="the "best".pdf"`, `; filename="a\"`, `; filename*1*=a`} {
		f.Add("\r\npreamble\r\n"+parts([2]string{`form-data; name="id"`, "a"}, [2]string{`form-data; name="f"` + more, "b"}), "id")
	}
	f.Add("--b \t\r\nContent-Disposition: form-data; name=id\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ==\r\n--b--", "id")
	f.Add("--b\r\nContent-Disposition: form-data; name=id\r\n\r\n--b--", "id")
	f.Fuzz(func(t *testing.T, body, name string) {
		value, found, err := MultipartField([]byte(body), name)
		if !IsMultipart([]byte(body)) || err != nil || found != 1 || name == "" {
			return
		}
		form, err := multipart.NewReader(strings.NewReader(body), boundary([]byte(body))).ReadForm(1 << 20)
		if err != nil || len(form.Value[name]) != 1 {
			t.Fatalf("got %q, where net/http has %v, %v", value, form, err)
		}
	})
}
