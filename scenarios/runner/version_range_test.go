package runner

import "testing"

func TestVersionRanges(t *testing.T) {
	for _, tt := range []struct {
		version, versions string
		want              bool
	}{
		{"3.10.8", ">=3.8", true},
		{"3.10.8", ">=3.8,<3.13", true},
		{"3.13.2", ">=3.8,<3.13", false},
		{"4.3.6", "=4.3", true},
		{"4.3.6", "4.3", true},
		{"4.3.6", "<=4.3", true},
		{"4.3.6", ">4.3", false},
		{"4.3.6", ">=4.3.7", false},
		{"3.9.1", ">=3.10", false},
		{"4.0.5", ">=4", true},
		{"4.1.0-rc.1", ">=4.1", true},
		{"3.8.9+deb", "=3.8.9", true},
	} {
		got, err := inRange(tt.version, tt.versions)
		if err != nil || got != tt.want {
			t.Errorf("%s in %q is %t, %v; want %t", tt.version, tt.versions, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "new", ">=", "~3.8", ">=3.x"} {
		if _, err := inRange("3.8.9", bad); err == nil {
			t.Errorf("the range %q was read", bad)
		}
	}
}
