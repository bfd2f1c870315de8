package adminclient

import (
	"fmt"
	"maps"
	"net/url"
)

// EachPage calls read with query, and again with the cursor that read returns, until that is "". It fails if the
// cursors go round in circles, because the listing of such a gateway never ends.
func EachPage(query url.Values, read func(url.Values) (next string, err error)) error {
	query = maps.Clone(query)
	// The mark is an earlier cursor. It is taken again after twice as many pages, so a circle of any length meets it.
	mark, age, limit := "", 0, 1
	for {
		next, err := read(query)
		if err != nil || next == "" {
			return err
		}
		if next == mark {
			return fmt.Errorf("the gateway returns the cursor %.40q again and again, so its listing has no end", next)
		}
		if age++; age == limit {
			mark, age, limit = next, 0, 2*limit
		}
		query.Set("cursor", next)
	}
}
