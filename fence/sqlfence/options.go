package sqlfence

import (
	"strconv"
	"strings"
)

const (
	defaultTable  = "coord_fence"
	maxIdentifier = 63 // PostgreSQL cuts longer ones; MySQL allows 64
)

// Option says how a Guard speaks to its database. The default is SQLite, the table coord_fence, created by New.
type Option interface{ apply(*config) }

// WithTable names the table, with its schema if need be: letters, digits and underscores, at most one dot.
func WithTable(name string) Option { return option(func(c *config) { c.table = name }) }

// WithoutCreate leaves it to others to create the table.
func WithoutCreate() Option { return option(func(c *config) { c.create = false }) }

// PostgreSQL writes statements for PostgreSQL (9.5 and later).
func PostgreSQL() Option { return option(func(c *config) { c.dialect = postgreSQL }) }

// MySQL writes statements for MySQL and MariaDB, with InnoDB tables.
func MySQL() Option { return option(func(c *config) { c.dialect = mySQL }) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type dialect int

const (
	sqlite dialect = iota
	postgreSQL
	mySQL
)

type config struct {
	table   string
	create  bool
	dialect dialect
}

// statements are what a guard sends, as doc.go explains them.
type statements struct {
	create, probe           string
	update, insert, highest string
}

func (c config) statements() statements {
	insert, ifAbsent := "INSERT INTO ", " ON CONFLICT DO NOTHING"
	if c.dialect == mySQL {
		insert, ifAbsent = "INSERT IGNORE INTO ", ""
	}
	return statements{
		create:  "CREATE TABLE IF NOT EXISTS " + c.table + " (resource VARCHAR(512) NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)",
		probe:   "SELECT resource, token, writes FROM " + c.table + " WHERE 1 = 0",
		update:  c.bind("UPDATE " + c.table + " SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ?"),
		insert:  c.bind(insert + c.table + " (resource, token, writes) VALUES (?, ?, 1)" + ifAbsent),
		highest: c.bind("SELECT token FROM " + c.table + " WHERE resource = ?"),
	}
}

// bind writes a statement's placeholders, of which each ? is one, as the database wants them.
func (c config) bind(query string) string {
	if c.dialect != postgreSQL {
		return query
	}
	for i := 1; strings.Contains(query, "?"); i++ {
		query = strings.Replace(query, "?", "$"+strconv.Itoa(i), 1)
	}
	return query
}

func validTable(name string) bool {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if !validIdentifier(part) {
			return false
		}
	}
	return len(parts) <= 2
}

func validIdentifier(s string) bool {
	for i, c := range s {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxIdentifier
}
