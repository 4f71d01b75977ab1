package negotiation

import (
	"strings"
	"testing"
)

var all = []string{"zstd", "br", "gzip", "deflate"}

func TestWhatIsWantedMostIsChosen(t *testing.T) {
	for _, c := range []struct {
		says string
		can  []string
		want string
	}{
		{"gzip, deflate, br", all, "gzip"},
		{"deflate, gzip", []string{"gzip"}, "gzip"},
		{"br;q=0.9, gzip;q=1.0", all, "gzip"},
		{"gzip;q=0.5, br;q=0.5", all, "gzip"},
		{"GZIP", all, "gzip"},
		{"x-gzip", all, "gzip"},
		{"compress, br", all, "br"},
		{"gzip;q=0, br", all, "br"},
		{"identity, gzip", all, "identity"},
		{"identity;q=0.5, gzip;q=0.4", all, "identity"},
		{"identity;q=0.4, gzip;q=0.5", all, "gzip"},
		{"*", all, "zstd"},
		{"gzip;q=0.1, *;q=0.5", all, "zstd"},
		{"gzip, *;q=0", all, "gzip"},
		{"zstd;q=0, br;q=0, *", all, "gzip"},
		{"*", nil, "identity"},
		{"", all, "identity"},
		{"gzip", nil, "identity"},
		{"identity;q=0, gzip", all, "gzip"},
		{"identity, *;q=0", nil, "identity"},
	} {
		got, ok := Choose([]string{c.says}, c.can)
		if got != c.want || !ok {
			t.Errorf("%q of %v: %q, %v, not %q", c.says, c.can, got, ok, c.want)
		}
	}
}

func TestASecondFieldGoesOnWithTheFirst(t *testing.T) {
	if got, _ := Choose([]string{"br;q=0.5", "gzip"}, all); got != "gzip" {
		t.Errorf("%q", got)
	}
	if got, ok := Choose(nil, all); got != Identity || !ok {
		t.Errorf("without a field %q, %v", got, ok)
	}
}

func TestWhoRefusesEverythingGetsNothing(t *testing.T) {
	for _, says := range []string{"identity;q=0", "*;q=0", "gzip;q=0, identity;q=0", "compress, identity;q=0.000"} {
		if coding, ok := Choose([]string{says}, []string{"gzip"}); ok && !strings.Contains("gzip", coding) {
			t.Errorf("%q gets %q", says, coding)
		}
		if _, ok := Choose([]string{says}, nil); ok {
			t.Errorf("%q gets what it refuses", says)
		}
	}
}

func TestWhatIsMalformedIsPassedOver(t *testing.T) {
	for _, bad := range []string{"gzip;q=2", "gzip;q=0.1234", "gzip;q=", "gzip;w=1", "gz ip", ";q=1", "gzip;q=1.5", "gzip;q=-1"} {
		if got, ok := Choose([]string{bad}, all); got != Identity || !ok {
			t.Errorf("%q gets %q, %v", bad, got, ok)
		}
		if got, _ := Choose([]string{bad + ", br"}, all); got != "br" {
			t.Errorf("%q hides what follows: %q", bad, got)
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add("gzip;q=0.5, *;q=0, identity")
	f.Fuzz(func(t *testing.T, says string) {
		coding, _ := Choose([]string{says}, all)
		for _, can := range append(all, Identity) {
			if coding == can {
				return
			}
		}
		t.Errorf("%q gets %q", says, coding)
	})
}
