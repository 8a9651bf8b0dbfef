package catalog

import (
	"net"
	"net/http"
	"testing"
)

func TestAHostNeverLeadsToAnAddressThatIsNotPublic(t *testing.T) {
	e := newElsewhere([]string{"bucket.example", "10.0.0.9"}, &http.Transport{DialContext: (&net.Dialer{}).DialContext})
	for address, hidden := range map[string]bool{
		"93.184.215.14": false, "2606:2800:21f::1": false,
		"127.0.0.1": true, "10.1.2.3": true, "169.254.169.254": true, "100.100.100.200": true, "198.18.0.1": true,
		"192.0.0.192": true, "255.255.255.255": true, "0.0.0.0": true, "224.0.0.1": true,
		"::1": true, "fd00::1": true, "fe80::1": true, "64:ff9b::a9fe:a9fe": true, "::ffff:10.0.0.1": true,
		"10.0.0.9": false, // which is named itself
	} {
		if got := e.isHidden("bucket.example:443", &net.TCPAddr{IP: net.ParseIP(address), Port: 443}); got != hidden {
			t.Errorf("%s is hidden: %v", address, got)
		}
	}
}
