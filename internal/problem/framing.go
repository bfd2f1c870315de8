package problem

import "net/http"

// CloseUnlessFramedOnce makes the server close the connection after the answer to r if r may have
// been framed in two ways: by Content-Length and by Transfer-Encoding together (RFC 9112, 6.1). A
// proxy that believes the length takes the rest of the body for the next request of the
// connection.
//
// net/http removes the Content-Length of such a request, and the Transfer-Encoding of one in
// HTTP/1.0, before a handler sees it. So every chunked request and every one in HTTP/1.0 costs its
// connection.
func CloseUnlessFramedOnce(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
		w.Header().Set("Connection", "close")
	}
}
