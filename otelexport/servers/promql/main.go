// Command promql evaluates a query with Prometheus's own engine over exposition texts, for tests. It reads {"texts", "query"}
// as JSON from its standard input, and prints the resulting samples as JSON. Labels in "labels" of a text are those that a
// scrape adds.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

type input struct {
	Texts []struct {
		Text   string            `json:"text"`
		Labels map[string]string `json:"labels"`
	} `json:"texts"`
	Query string `json:"query"`
}

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

// now is the time of all samples, in milliseconds.
const now = 1_000_000

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	var all []promql.Series
	for _, text := range in.Texts {
		p := expfmt.NewTextParser(model.UTF8Validation)
		families, err := p.TextToMetricFamilies(strings.NewReader(text.Text))
		if err != nil {
			return err
		}
		for name, f := range families {
			for _, m := range f.Metric {
				b := labels.NewBuilder(labels.FromMap(text.Labels))
				for _, l := range m.Label {
					b.Set(l.GetName(), l.GetValue())
				}
				v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
				all = append(all, promql.Series{Metric: b.Set(model.MetricNameLabel, name).Labels(), Floats: []promql.FPoint{{T: now, F: v}}})
			}
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	q, err := engine.NewInstantQuery(context.Background(), store(all), nil, in.Query, time.UnixMilli(now))
	if err != nil {
		return err
	}
	vector, err := q.Exec(context.Background()).Vector()
	if err != nil {
		return err
	}
	out := []sample{}
	for _, s := range vector {
		out = append(out, sample{s.Metric.Map(), s.F})
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// A store holds series with one sample each.
type store []promql.Series

func (s store) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &found{SeriesSet: storage.EmptySeriesSet(), at: -1}
		for _, k := range s {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(k.Metric.Get(m.Name)) }) {
				set.list = append(set.list, promql.NewStorageSeries(k))
			}
		}
		return set
	}}, nil
}

// found is a storage.SeriesSet.
type found struct {
	storage.SeriesSet
	list []storage.Series
	at   int
}

func (f *found) Next() bool {
	f.at++
	return f.at < len(f.list)
}

func (f *found) At() storage.Series { return f.list[f.at] }
