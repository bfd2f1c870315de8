// Package hooktest helps to test programs that use hookonce.
//
// [NewRequest] makes a signed request as the provider of a source would send it, for every provider
// of the catalog that signs. [Work] runs the handler of an event in a transaction of the test. The
// test inspects it and rolls it back. [Settled] waits until a source has no open work, for tests of
// a whole Inbox. None of them replaces a database: use the one that the program uses, or SQLite in
// a temporary folder.
//
//	func TestInvoicePaid(t *testing.T) {
//		tx, err := pool.Begin(t.Context())
//		if err != nil {
//			t.Fatal(err)
//		}
//		defer tx.Rollback(context.Background())
//		ev := hooktest.NewEvent("stripe", "evt_1", "invoice.paid", `{"id":"evt_1"}`)
//		if r := hooktest.Work(t.Context(), t, tx, mux, ev); r.Err != nil || len(r.Messages) != 1 {
//			t.Errorf("got %+v", r)
//		}
//	}
package hooktest
