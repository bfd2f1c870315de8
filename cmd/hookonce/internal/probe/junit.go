package probe

import (
	"encoding/xml"
	"fmt"
	"time"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Time    string      `xml:"time,attr"` // seconds
	Failure *junitFault `xml:"failure"`
	Error   *junitFault `xml:"error"`
	Skipped *junitFault `xml:"skipped"`
}

type junitFault struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns the report as JUnit XML. An unknown check is an error if effects were counted, and is
// skipped otherwise, as the exit code has it. printable makes text of the receiver fit for people.
func (r *Report) JUnit(effects bool, printable func(string) string) ([]byte, error) {
	suite := junitSuite{Name: "hookonce probe", Tests: len(r.Checks), Failures: r.Failed}
	for i := range r.Checks {
		c := &r.Checks[i]
		one := junitCase{Class: "hookonce.probe", Name: c.Name, Time: fmt.Sprintf("%.3f", c.Took.Round(time.Millisecond).Seconds())}
		fault := &junitFault{Message: printable(c.Saw), Text: "Sent: " + c.Sent + "\n" + c.Why + "\n" + c.Fix + "\n"}
		switch {
		case c.Verdict == Fail:
			one.Failure = fault
		case c.Verdict == Unknown && effects:
			one.Error, suite.Errors = fault, suite.Errors+1
		case c.Verdict == Unknown:
			one.Skipped, suite.Skipped = fault, suite.Skipped+1
		}
		suite.Cases = append(suite.Cases, one)
	}
	text, err := xml.MarshalIndent(&suite, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(append([]byte(xml.Header), text...), '\n'), nil
}
