// Package products makes the goods that the catalogue subject serves.
//
// A product is a pure function of a seed and its number: the same seed gives
// the same bytes in every process, on every machine, whatever the number of
// products and the order they are made in. The pool holds each product three
// times: as a value to compute with, as JSON, and as that JSON in gzip.
//
// It knows nothing of HTTP; package routes turns the pool into answers.
package products

// Product is one article of the catalogue. Its JSON form is about 4.5 KB, most
// of it description, and halves under gzip.
type Product struct {
	ID          string     `json:"id"` // UUID
	Name        string     `json:"name"`
	Brand       string     `json:"brand"` // one of brandCount
	Category    string     `json:"category"`
	Price       float64    `json:"price"`  // whole cents
	Rating      float64    `json:"rating"` // 1.0 to 5.0, in tenths
	ReviewCount int        `json:"review_count"`
	Description string     `json:"description"` // five paragraphs
	Tags        []string   `json:"tags"`        // 5 to 15
	Attributes  Attributes `json:"attributes"`
	Images      []string   `json:"images"` // 3 to 8 URLs
}

// Attributes are the seven properties that every product has.
type Attributes struct {
	Color     string `json:"color"`
	Material  string `json:"material"`
	Dimension string `json:"dimension"`
	Weight    string `json:"weight"`
	Warranty  string `json:"warranty"`
	Origin    string `json:"origin"`
	UPC       string `json:"upc"`
}
