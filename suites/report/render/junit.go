package render

import (
	"encoding/xml"
	"fmt"
	"time"
)

// Suite is a JUnit report, in the form that CI systems read: a testsuite of testcases.
type Suite struct {
	XMLName    xml.Name    `xml:"testsuite"`
	Name       string      `xml:"name,attr"`
	Tests      int         `xml:"tests,attr"`
	Failures   int         `xml:"failures,attr"`
	Errors     int         `xml:"errors,attr"`
	Skipped    int         `xml:"skipped,attr"`
	Time       string      `xml:"time,attr"`
	Stamp      string      `xml:"timestamp,attr"`
	Properties *Properties `xml:"properties"` // nil: none
	Cases      []Case      `xml:"testcase"`
}

// Properties are what the whole of a Suite depends on.
type Properties struct {
	All []Property `xml:"property"`
}

// Property is one of them.
type Property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// Case is one testcase: passed, if it has no Problem.
type Case struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Time    string   `xml:"time,attr,omitempty"`
	Failure *Problem `xml:"failure,omitempty"`
	Error   *Problem `xml:"error,omitempty"`
	Skipped *Problem `xml:"skipped,omitempty"`
	Out     string   `xml:"system-out"`
}

// Problem is why a Case did not pass.
type Problem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
}

// NewSuite is an empty one, of a run that began and took so long.
func NewSuite(name string, began time.Time, took time.Duration) *Suite {
	return &Suite{Name: name, Time: Seconds(took), Stamp: began.UTC().Format("2006-01-02T15:04:05")}
}

// Add counts c as what it is.
func (s *Suite) Add(c Case) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Error != nil {
		s.Errors++
	}
	if c.Skipped != nil {
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

// XML is the file.
func (s *Suite) XML() ([]byte, error) {
	b, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render JUnit: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

// Seconds is a time as JUnit has it.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
