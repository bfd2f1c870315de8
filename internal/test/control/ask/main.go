// Ask prints the answer to a GET of the URL in its argument, and fails unless that is 200.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	resp, err := http.Get(os.Args[1])
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
		_ = resp.Body.Close()
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
	case resp.StatusCode != http.StatusOK:
		fmt.Fprintln(os.Stderr, resp.Status)
	default:
		return
	}
	os.Exit(1)
}
