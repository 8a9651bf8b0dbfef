package page

import (
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// packageName is that of a wheel, an npm package or a Maven artifact. Nothing else of the directory is served.
var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*\.(whl|tgz|jar)$`)

// installs are how each kind of package is installed, by the end of its name.
var installs = map[string]string{".whl": "pip install ", ".tgz": "npm install ", ".jar": "curl -O "}

var packages = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Packages of Easel</title>
<h1>Packages</h1>
{{range .}}<p><a href="/packages/{{.Name}}">{{.Name}}</a><br><code>{{.Install}}</code></p>
{{else}}<p>This server hands out no packages: its operator has set no directory of them.</p>
{{end}}</html>
`))

// Packages are the handlers of the clients in a directory, so that who calls this server needs nothing from
// elsewhere. Without a directory the list is empty.
func Packages(directory string) map[string]http.Handler {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		if name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/packages"), "/"); name != "" {
			servePackage(w, r, directory, name)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = packages.Execute(w, listPackages(r, directory)) // the reader has gone
	})
	return map[string]http.Handler{"/packages": handler, "/packages/{name}": handler}
}

type listed struct{ Name, Install string }

func listPackages(r *http.Request, directory string) (found []listed) {
	if directory == "" {
		return nil
	}
	entries, _ := os.ReadDir(directory) // it was there at the start
	here := "http://" + r.Host + "/packages/"
	if r.TLS != nil {
		here = "https://" + r.Host + "/packages/"
	}
	for _, entry := range entries {
		if name := entry.Name(); packageName.MatchString(name) {
			found = append(found, listed{name, installs[name[strings.LastIndex(name, "."):]] + here + name})
		}
	}
	return found
}

func servePackage(w http.ResponseWriter, r *http.Request, directory, name string) {
	if directory == "" || !packageName.MatchString(name) {
		http.NotFound(w, r)
		return
	}
	file, info, err := openPackage(directory, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	_ = file.Close() // it was not read
	w.Header().Set("Content-Type", "application/octet-stream")
	part := io.NewSectionReader(pieces{directory, info}, 0, info.Size())
	http.ServeContent(w, r, name, info.ModTime(), part)
}

func openPackage(directory, name string) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenInRoot(directory, name)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		_ = file.Close() // it was not read
		return nil, nil, err
	}
	return file, info, nil
}

// pieces is a package that is open for as long as a piece of it is read, and not while its reader takes the piece.
type pieces struct {
	directory string
	info      fs.FileInfo
}

// ReadAt implements io.ReaderAt. A package that was replaced meanwhile can't be read on.
func (p pieces) ReadAt(into []byte, at int64) (int, error) {
	file, info, err := openPackage(p.directory, p.info.Name())
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // it was only read
	if !os.SameFile(info, p.info) || !info.ModTime().Equal(p.info.ModTime()) {
		return 0, fs.ErrNotExist
	}
	return file.ReadAt(into, at)
}
