// Package browser has no code. Its tests walk the pages of the dashboard in Chromium, over a real
// gateway with real deliveries. To add a page, add a line to the table of pages in pages_test.go.
//
// HOOKONCE_SCREENSHOTS names a folder for a screenshot of each page in each look; it must exist.
package browser
