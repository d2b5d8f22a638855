package step_test

import (
	"math"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/timeline/step"
)

// ops returns the ops of a program, one a letter, each 10 ns after the one before:
//
//	a…z  a kernel on lane 0     A…Z  a kernel on lane 1     G  a graph of five kernels on lane 0
//	<    a copy from the host   >    a copy to the host, which waits      ^  a copy from the host in the call
//	.    a wait for lane 0      :    a wait for the device  ;  a wait for lane 1  !  a wait for an event on lane 0
//	-    another task on lane 0       _    another task on lane 1
//
// A digit before a letter is the thread; 0 without. A space is 100 ns between ops.
func ops(program string) (out []step.Op) {
	thread, at := uint32(0), int64(0)
	for _, r := range program {
		d := step.Op{Start: at, End: at + 5, What: uint64(r), Thread: thread, Process: 1}
		switch {
		case r >= '0' && r <= '9':
			thread = uint32(r - '0')
			continue
		case r == ' ':
			at += 100
			continue
		case r == 'G':
			d.Class, d.Launches = step.Launch, 5
		case r >= 'a' && r <= 'z':
			d.Class, d.Launches = step.Launch, 1
		case r >= 'A' && r <= 'Z':
			d.Class, d.Launches, d.Lane = step.Launch, 1, 1
		case r == '<':
			d.Class = step.CopyIn
		case r == '^':
			d.Class, d.Host = step.CopyIn, true
		case r == '>':
			d.Class, d.Host = step.CopyOut, true
		case r == '.':
			d.Class = step.Sync
		case r == ':':
			d.Class, d.Lane = step.Sync, step.AllLanes
		case r == ';':
			d.Class, d.Lane = step.Sync, 1
		case r == '!':
			d.Class, d.Event = step.Sync, true
		case r == '_':
			d.Lane = 1
		}
		out, thread, at = append(out, d), 0, at+10
	}
	return out
}

func lanes() []step.Lane {
	return []step.Lane{{Process: 1, Name: "stream 0"}, {Process: 1, Name: "stream 1"}}
}

// learned returns the rule for a program.
func learned(program string) *step.Rule {
	l := step.NewLearner(lanes, uint64(len(program)))
	for _, d := range ops(program) {
		l.Op(d)
	}
	return l.Rule()
}

// cut returns a program with its steps: [typical], (another) and {open}.
func cut(f *step.Finder, program string, named ...step.Range) string {
	var steps []step.Step
	pass := func(now int64) {
		for s := f.Pass(now); s != nil; s = f.Pass(now) {
			steps = append(steps, *s)
		}
	}
	all := ops(program)
	for i := range all {
		pass(all[i].Start)
		for k := range named {
			if named[k].From == all[i].Start {
				f.See(nil, &named[k])
				pass(all[i].Start)
			}
		}
		f.See(&all[i], nil)
	}
	if len(all) > 0 {
		f.Finish(all[len(all)-1].Start + 10)
	}
	pass(math.MaxInt64)
	var out strings.Builder
	at, letters := 0, strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == ' ' {
			return -1
		}
		return r
	}, program)
	until := func(end int64) {
		for ; at < len(all) && all[at].Start < end; at++ {
			out.WriteByte(letters[at])
		}
	}
	for i, s := range steps {
		until(s.From)
		brackets := "()"
		switch {
		case s.Index != i:
			brackets = "??"
		case s.Open:
			brackets = "{}"
		case s.Typical:
			brackets = "[]"
		}
		out.WriteByte(brackets[0])
		until(s.To)
		out.WriteByte(brackets[1])
	}
	until(math.MaxInt64)
	return out.String()
}

// mixed returns a program with steps of two kinds.
func mixed(order, x, y string) string { return strings.NewReplacer("x", x, "y", y).Replace(order) }

// gradients returns a program that accumulates gradients of four inputs: the first has none to add to, and the optimizer follows the last.
func gradients(then string, n int) string {
	return strings.Repeat("<abcdef<aibjckdlef<aibjckdlef<aibjckdlefxyz"+then, n)
}

// reads returns a program that accumulates gradients of four inputs, and reads a result after each. The first input has no kernels that add gradients. The
// optimizer follows the last one.
func reads(added, optimizer string, n int) string {
	return strings.Repeat("<abcdef>"+strings.Repeat("<aibjckdlef"+added+">", 3)+optimizer, n)
}

// various are kernels without order.
const various = "abacadaeafagahaiajakalamanaoapaqarbsbtbubvcwcxcydzdydxdwdvduebecedefegeh"

// critics returns a program with eight times five steps and then some other work.
func critics(then string) string { return strings.Repeat(strings.Repeat("<gdabxy.", 5)+then, 8) }

// The steps of programs, and what ends them. The programs have no names for their steps.
func TestProgramsHaveSteps(t *testing.T) {
	for _, c := range []struct{ program, want, by string }{
		{"a.a.", "a.a.", ""},
		{"a.a.a.", "[a.][a.][a.]", "waits"},
		{"xyab.ab.ab.", "xy[ab.][ab.][ab.]", "waits"},
		{"ab.ab.abcdefg.ab.ab.", "ab.ab.abcdefg.ab.ab.", ""}, // half the launches are in another step
		{"<ab.<ab.<ab.<a", "[<ab.][<ab.][<ab.]{<a}", "waits"},
		{"<ab><ab><ab>", "[<ab>][<ab>][<ab>]", "copies to the host"},
		{"abababab", "[ab][ab][ab][ab]", "a kernel"},
		{"xyzxyzabababababab", "xyzxyz[ab][ab][ab][ab][ab][ab]", "a kernel"},
		{"ababababa", "[ab][ab][ab][ab]{a}", "a kernel"},
		{"ab.>ab.>ab.>", "[ab.>][ab.>][ab.>]", "copies to the host"},
		{"ab>.ab>.ab>.", "[ab>.][ab>.][ab>.]", "waits"},
		{"a<b.a<b.a<b.a<b.", "a[<b.a][<b.a][<b.a]{<b.}", "copies of inputs"},
		{"ab.-ab.-ab.-", "[ab.-][ab.-][ab.-]", "a kernel"},
		{"abAB.;abAB.;abAB.;", "[abAB.][;abAB.][;abAB.]{;}", "waits"},
		{"ABCa.;ABCa.;ABCa.;", "[ABCa.;][ABCa.;][ABCa.;]", "waits"},
		{"ab:ab:ab:", "[ab:][ab:][ab:]", "waits"},
		{"ab!ab!ab!", "[ab!][ab!][ab!]", "waits"},
		{"1a1b2.1a1b2.1a1b2.", "[ab.][ab.][ab.]", "waits"},
		{"1a1b2!1a1b2!1a1b2!", "[ab][!ab][!ab]!", "a kernel"}, // another thread waits for events at any time
		{"<G.<G.<G.aaaaaaaaaa", "[<G.][<G.][<G.]{aaaaaaaaaa}", "waits"},
		{"abcd>abcd>abcd>abcdefgh.abcd>abcd>abcd>abcdefgh.abcd>abcd>abcd>abcdefgh.", "[abcd>abcd>abcd>abcdefgh.][abcd>abcd>abcd>abcdefgh.][abcd>abcd>abcd>abcdefgh.]", "waits"},
		{"<abc<abc<abcxyz<abc<abc<abcxyz<abc<abc<abcxyz<abc<abc<abcxyz", "[<abc<abc<abcxyz][<abc<abc<abcxyz][<abc<abc<abcxyz][<abc<abc<abcxyz]", "copies of inputs"},
		{gradients("", 4), strings.Repeat("[<abcdef<aibjckdlef<aibjckdlef<aibjckdlefxyz]", 4), "copies of inputs"},
		{gradients(">", 4), strings.Repeat("[<abcdef<aibjckdlef<aibjckdlef<aibjckdlefxyz>]", 4), "copies to the host"},
		{reads("", "x", 4), strings.Repeat("["+reads("", "x", 1)+"]", 4), "copies of inputs"}, // each input was a step
		{reads("i", "x.", 4), strings.Repeat("["+reads("i", "x.", 1)+"]", 4), "copies of inputs"},
		{reads("", "ijkl", 4), strings.Repeat("["+reads("", "ijkl", 1)+"]", 4), "copies of inputs"},                                                                                              // by the kernels that add gradients
		{strings.Repeat(strings.Repeat("<abcdef>", 4)+"x", 5), strings.Repeat("[<abcdef>]", 4) + strings.Repeat("[x<abcdef>]"+strings.Repeat("[<abcdef>]", 3), 4) + "{x}", "copies to the host"}, // a metric
		{mixed(strings.Repeat("xxxy", 5), "<abcdefghij", "<abcd"), strings.Repeat("[<abcdefghij][<abcdefghij][<abcdefghij](<abcd)", 5), "copies of inputs"},
		{"ab .^ab .^ab .^ab .^", "ab[.^ab][.^ab][.^ab]{.^}", "waits"}, // a copy that waits first
		{"ab. ^ab. ^ab. ^ab. ^", "ab.[^ab.][^ab.][^ab.]{^}", "waits"},
		{critics("gdabzzuvw."), strings.Repeat(strings.Repeat("[<gdabxy.]", 5)+"(gdabzzuvw.)", 8), "waits"}, // a generator's step after those of its critic
		{critics("xxxxxxxxxxxx."), "[<gdabxy.]" + strings.Repeat(strings.Repeat("[<gdabxy.]", 4)+"(xxxxxxxxxxxx.<gdabxy.)", 7) + strings.Repeat("[<gdabxy.]", 4) + "{xxxxxxxxxxxx.}", "waits"},
		{mixed("xxxyyxyyyxxyxyyyyxxxxyxxyx", "<abcdefgh.", "<GG."), mixed("xxxyyxyyyxxyxyyyyxxxxyxxyx", "(<abcdefgh.)", "[<GG.]"), "copies of inputs"},
		{mixed("xyyxxyyyxyyxxyyyyxyxxyyyxxyyy", "<<<<-cdef-hefeiffjk->!.", "<<<<-GhGfjk->!."), mixed("xyyxxyyyxyyxxyyyyxyxxyyyxxyy", "(<<<<-cdef-hefeiffjk->!.)", "[<<<<-GhGfjk->!.]") + "[<<<<-GhGfjk->!].", "copies of inputs"},
		{mixed("xyxyxyxyxyxyxyxyxyxyxyxyxy", "<abcdefgh.", "<GG."), strings.Repeat("[<abcdefgh.<GG.]", 13), "waits"},
		{"<abcdefghg." + strings.Repeat("<fg.", 6) + "<-abcdefghg:", "(<abcdefghg.)" + strings.Repeat("[<fg.]", 6) + "(<-abcdefghg:)", "waits"}, // the last one waits in another way
		{various + ".<<uvwxyzabcdefghil.<<uvwcxyzdabefcdefghil.<<uvwcxyzdbaefdcefdcghl." + strings.Repeat("<<kGl.", 7), // of the prompts before the tokens only the last was found
			various + ".(<<uvwxyzabcdefghil.)(<<uvwcxyzdabefcdefghil.)(<<uvwcxyzdbaefdcefdcghl.)" + strings.Repeat("[<<kGl.]", 7), "waits"},
		{mixed("xxxxxxxyxxxxxxxxxyxx", "<<abcdabcdabc.aGbdefg-_>!", "<<abcdabcdabc.aGbdefg!-_>"), // now and then the wait is before the copy
			mixed("xxxxxxxyxxxxxxxxxyxx", "[<<abcdabcdabc.aGbdefg-_>!]", "[<<abcdabcdabc.aGbdefg!-_>]"), "copies to the host"},
		{"<yayaya.<yazw.<<akl.<amnopqrstuvwmnopqrsij->!" + mixed("xyxxxxxxxxx", "<<abcdefgh.GGGij->!", "<<amnopqrstuvwmnopqrsij->!"), // other work before the first step, and a wait in it
			"<yayaya.<yazw.(<<akl.<amnopqrstuvwmnopqrsij->!)" + mixed("xyxxxxxxxxx", "[<<abcdefgh.GGGij->!]", "(<<amnopqrstuvwmnopqrsij->!)"), "waits"},
		{"a1Aa1Aa1Aa1A", "aAaAaAaA", ""}, // threads that never wait for each other
	} {
		r := learned(c.program)
		if got := cut(step.New(r), c.program); got != c.want || r.By() != c.by || (r.Why == "") != (r.Source == step.Found) {
			t.Errorf("%q, by %s, %s", got, r.By(), r.Why)
			t.Errorf("%q, by %s", c.want, c.by)
		}
	}
}

// Programs without order have the same steps in each version, since people compare the steps of traces. No change of these is a fault by itself.
func TestOddProgramsKeepTheirSteps(t *testing.T) {
	for _, c := range [][2]string{
		{"c<Cbc:CdcGhc<Cbc:CdcGh<;A:Gb.<a1-a0<<;A:Gb.<a1-a0<<;A:Gb.<a1-a0<<;A:Gb.<a1-a0<<;A:Gb.<a1-a0<c<Cbc:CdcGh<;A:Gb.<a1-a0<<;A:Gb.<", "c(<Cbc:CdcGhc)(<Cbc:CdcGh)[<;A:Gb.<a-a][<<;A:Gb.<a-a][<<;A:Gb.<a-a][<<;A:Gb.<a-a][<<;A:Gb.<a-a](<c)(<Cbc:CdcGh)[<;A:Gb.<a-a]{<<;A:Gb.<}"},
		{"C2-b<C2-b<-1;B<Ag.d-<-1;B<Ag.d--1;B<Ag.d--1;B<Ag.d--", "C-b<C-b[<-;B<Ag.d-][<-;B<Ag.d--;B][<Ag.d--;B][<Ag.d--]"},
		{"dAcfB>fdc>fdc>fdc>fdc->fdc>fdc>fdc", "dAcfB>f[dc>f][dc>f][dc>f](dc->f)[dc>f][dc>f]{dc}"},
		{".Becdc2ha.Bb:-caCa!ABb:-caCaABb:-caCaA.", ".Becdcha.B[b:-caCa!AB][b:-caCaAB][b:-caCaA]."},
		{"2g<b!2:d.>a2<!e;2g<b!2:d.e;2g<b!2:d.e;", "g(<b!:d.>a<!e;g)[<b!:d.e;g][<b!:d.e];"},
		{"C.BB.C.BB.C.BB.fa:fb2:>0..", "[C.BB.][C.BB.][C.BB.fa]:fb:>.."},
		{"<ehaGBc0Gbehac0Gbehac0Gbehac0Gb", "<eha(GBc)[Gbehac][Gbehac][Gbehac]{Gb}"},
		{"-G.bd<cac<1BBCda-ab;C!-ab;C!-ab;C!-ab;C!-ab;C!-ab;C!-ab", "-G.bd<cac<BBCda[-ab;C!-][ab;C!-][ab;C!-][ab;C!-][ab;C!-][ab;C!-][ab]"},
		{"cd0eG.:>c1g0>G.:>c1gG.:>c1gG.:>c1gG.:>c1g.cG.:>c1gG.:>c1gG.", "cdeG.:>[cg>G.:>][cgG.:>][cgG.:>][cgG.:>](cg.cG.:>)[cgG.:>][cgG.]"},
		{"Aa:fbG!!<.:fbG!!<.:fbG", "Aa:fbG!!<.:fbG!!<.:fbG"},
		{"BAGBAGBAGBAGBAGBAAe.:GBAGBAGBA", "BAGBAGBAGBAGBAGBAAe.:GBAGBAGBA"},
		{".B;:bhCfd.B;bcA:bhCfd", ".B;:bhCfd.B;bcA:bhCfd"},
		{"<.0<-c-A;<-<><-<><-<><-<><-<><-<>dd", "<.<-c-A;(<)[-<><][-<><][-<><][-<><][-<><][-<>d]d"},
		{"0<c.ge.gc!hb<chAdb.ge.ge.gegc!hb<chAdb.", "<c.ge.gc!hb<chAdb.ge.ge.gegc!hb<chAdb."},
		{"<0gGb<0gGb<0gGb2G<0gGa2.cab<0gGb<0gGa2.cab<0gGb<0gGb<0gGb", "[<gGb][<gGb][<gGbG](<gGa.cab)[<gGb](<gGa.cab)[<gGb][<gGb][<gGb]"},
		{"eC:0<1cb:eC:0<1cb:eC:0<1cb:eC:0<1cb:eC:0<1cb:geC:0<1cb:eC:", "eC:[<cb:eC:][<cb:eC:][<cb:eC:][<cb:eC:][<cb:geC:][<cb:eC:]"},
		{"BcB.c!-bBcB.c!-bBcB.c!-bBcB.c!-bBcB.h-1dc!-bBcB.c!-bBcB.c!-beBcB.h-1dc!-b", "BcB.c![-bBcB.c!-][bBcB.c!-][bBcB.c!-](bBcB.h-dc!-)[bBcB.c!-][bBcB.c!-](beBcB.h-dc!-){b}"},
		{"2abb2ab2ab2ab2ab2ab", "(abb)[ab][ab][ab][ab][ab]"},
		{"-;B1b-;B1b-;B1b-;B1b", "-;B[b-][;Bb-][;Bb-]{;Bb}"},
		{"fc.-.>b:cfc.-.>b:cfc.-.>b:cdBc.fc.-.>b:cfc.-", "fc.[-.>b:cfc.-.>][b:cfc.-.>][b:cdBc.](fc.-.>)[b:cfc.-]"},
		{".a<.a<", ".a<.a<"},
		{"baef.b!<f..b!<", "baef.b!<f..b!<"},
		{"cg<dcgdcgdcgdcgd", "cg<dcgdcgdcgdcgd"},
		{"a<ca<ca<ca<cdda<c", "a[<ca][<ca][<ca](<cdda){<c}"},
		{"G>!.0<!G>!.0;2<<!G>!.0<!G", "G>![.<!G>!][.;<<!G>!](.<!G)"},
		{"a>ea>ea>ega>ea>ea>ea>eca>e", "[a>e][a>e][a>eg][a>e][a>e][a>e][a>ec][a>e]"},
		{"G.d-G.d-G.d-G.d-G.d-:G.d-G.d-:", "[G.d-][G.d-][G.d-][G.d-][G.d-:][G.d-][G.d-]:"},
		{".;Gcg<<>cc<<>cc<<>cc<<>ccc<<>cc<<>cccg<<>c", ".;Gcg<<>cc<<>cc<<>cc<<>ccc<<>cc<<>cccg<<>c"},
		{"0!2<G>f<<0a2f:-CC:<0a2f:-CC:<0a2f:-CC:<0a2f:-CC:", "!<G>f<[<af:-CC:][<af:-CC:][<af:-CC:][<af:-CC:]"},
		{"c.0aC1-daCAc.0aC1-daCAc.2C>Ah0aC1-daCAc.0aC1-daCAc.2C>Ah0aC1-daCA", "c.[aC-daCAc.][aC-daCAc.C>][AhaC-daCAc.][aC-daCAc.C>]{AhaC-daCA}"},
	} {
		if got := cut(step.New(learned(c[0])), c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// ranges returns ranges as texts show them, one letter an op: S=== is a range of four ops, whose name belongs to the letter S.
func ranges(names map[byte]string, texts ...string) (out []step.Range) {
	for _, text := range texts {
		for i := 0; i < len(text); i++ {
			if name, ok := names[text[i]]; ok {
				r := step.Range{Process: 1, Name: name, From: 10 * int64(i), Begin: uint64(len(out) + 1), EndThread: 7}
				for i+1 < len(text) && text[i+1] == '=' {
					i++
				}
				r.To = 10*int64(i+1) - 1
				out = append(out, r)
			}
		}
	}
	return out
}

// Ranges with one name mark steps if they hold half the launches. The outermost win, and those whose names say so.
func TestRangesMarkSteps(t *testing.T) {
	names := map[byte]string{'S': "step 12", 'T': "step 13", 'E': "epoch 1", 'L': "layer", 'I': "train_ITERation", '5': "5"}
	for _, c := range []struct {
		program string
		ranges  []string
		want    string
		by      string
	}{
		{"abcdabcd", []string{"S===T==="}, "[abcd][abcd]", "ranges step"},
		{"abcdabcd", []string{"E===E==="}, "[abcd][abcd]", "ranges epoch"},
		{"abcdabcd", []string{" S== T=="}, "a[bcd]a[bcd]", "ranges step"},
		{"abcdefgh", []string{"S==="}, "[abcd]efgh", "ranges step"},
		{"abcdefgh", []string{"E==="}, "abcdefgh", ""},
		{"abcdefgh", []string{"S=="}, "abcdefgh", ""},
		{"abcdefgh", []string{"S=T="}, "[ab][cd]efgh", "ranges step"},
		{"abcdefgh", []string{"S=T"}, "abcdefgh", ""},
		{"abcdefgh", []string{"E===E===", "L=L=L=L="}, "[abcd][efgh]", "ranges epoch"},
		{"abcdefgh", []string{"E===E===", " L== L=="}, "[abcd][efgh]", "ranges epoch"},
		{"abcdefgh", []string{"E===E===", "SS=TTST "}, "[abcd][efgh]", "ranges epoch"},
		{"abcdefgh", []string{"L==L====", "  I=I   "}, "[abc][defgh]", "ranges layer"},
		{"abcdefgh", []string{"L=     L", "   I==I="}, "abc[def][gh]", "ranges train_ITERation"},
		{"abcdefgh", []string{"S======", " T=T=== "}, "abcdefgh", ""},
		{"abcdefgh", []string{"LL======", " EEEE   "}, "[a][bcdefgh]", "ranges layer"},
		{"<<<<----", []string{"S===T==="}, "<<<<----", ""},
	} {
		l := step.NewLearner(lanes, 0)
		for _, d := range ops(c.program) {
			l.Op(d)
		}
		all := ranges(names, c.ranges...)
		for i := range all {
			l.Range(&all[i])
		}
		r := l.Rule()
		if got := cut(step.New(r), c.program, all...); got != c.want || r.By() != c.by {
			t.Errorf("%q %q: %q, by %q, want %q, by %q", c.program, c.ranges, got, r.By(), c.want, c.by)
		}
	}
}

// The operators of a framework's profile marked steps: a read took the time in which another thread launched.
func TestOperatorsMarkNoSteps(t *testing.T) {
	const program = "abcd.efgh.ijkl.mnop."
	for name, want := range map[string]step.Source{"aten::item": step.None, "ProfilerStep#1": step.Marked} {
		l := step.NewLearner(lanes, 0)
		for _, d := range ops(program) {
			l.Op(d)
		}
		for i := range int64(4) {
			l.Range(&step.Range{Process: 1, Domain: step.Framework, Name: name, From: 50 * i, To: 50*i + 45, Begin: uint64(i + 1)})
		}
		if r := l.Rule(); r.Source != want {
			t.Errorf("ranges %s: %s, want %s", name, r.Source, want)
		}
	}
}

// A live Finder learns the steps from 64 ops and twice as many that confirm it. Steps that may be layers of a larger step need more. It learns anew
// when steps stop.
func TestLiveSteps(t *testing.T) {
	live := func(program string) (*step.Finder, string) {
		f := step.NewLive(lanes)
		return f, cut(f, program)
	}
	unit := "<abc."
	f, got := live(strings.Repeat(unit, 100))
	if n := strings.Count(got, "["+unit+"]"); n != 74 || f.Rule().By() != "waits" || !strings.HasPrefix(got, strings.Repeat(unit, 25)+"<ab") {
		t.Errorf("%d steps by %q: %s", n, f.Rule().By(), got)
	}
	if f, got := live(strings.Repeat("ab", 1<<13-1)); strings.Contains(got, "[") || f.Rule().Source != step.None || f.At() != -1 {
		t.Errorf("layers are steps: %s", got[:200])
	}
	if f, got := live(strings.Repeat("ab", 17000)); !strings.Contains(got, "[ab]") || f.Rule().Source != step.Found || strings.Index(got, "[") != 1<<14 {
		t.Errorf("a loop of kernels has no steps: at %d", strings.Index(got, "["))
	}
	if _, got := live(strings.Repeat(unit, 26) + strings.Repeat("xy>", 1<<17/3) + strings.Repeat("<defg.", 60)); !strings.Contains(got, "[<defg.]") {
		t.Errorf("no new rule: %s", got[:300])
	}
	if _, got := live(strings.Repeat(unit, 26) + strings.Repeat("xy", 1<<16-400) + strings.Repeat("<defg.", 60)); strings.Contains(got, "[<defg.]") {
		t.Error("a new rule before the steps have stopped for long")
	}
}

// Kernels that a program launches to warm up before it captures them are no steps.
func TestWarmUpRunsAreNoSteps(t *testing.T) {
	for _, c := range []struct {
		before, after, kernels string
		process                uint32
		want                   string
	}{
		{"ab.ab.ab.", "G.G.G.", "ab", 1, "ab.ab.ab.[G.][G.][G.]"},
		{"xab.ab.ab.", "G.G.G.", "ab", 1, "xab.ab.ab.[G.][G.][G.]"},
		{"ab.ab.ab.", "", "ab", 2, "[ab.][ab.][ab.]"}, // of another process
		{"a.a.a.", "", "a", 1, "[a.][a.][a.]"},        // too short to tell
		{"ab.ab.ab.", "", "cd", 1, "[ab.][ab.][ab.]"},
		{"ab.ab.ab.", "", "xab", 1, "[ab.][ab.][ab.]"},
		{"ab.ab.ab.ab.ab.ab.", "", "ab", 1, "[ab.][ab.][ab.]{ab.ab.ab.}"},
		{"ab.ab.ab.cd.ab.", "", "ab", 1, "[ab.][ab.][ab.]{cd.ab.}"},
		{"ab2.ab2.ab2.", "", "ab", 1, "ab.ab.ab."},
		{"<ab2.<ab2.<ab2.", "<G2.<G2.<G2.", "ab", 1, "<ab.<ab.<ab.[<G.][<G.][<G.]"},
	} {
		l := step.NewLearner(lanes, 0)
		all, at := ops(c.before+c.after), len(ops(c.before))
		var kernels []uint64
		for _, k := range c.kernels {
			kernels = append(kernels, uint64(k))
		}
		for i, d := range all {
			if i == at {
				l.Captured(&step.Capture{Process: c.process, Kernels: kernels})
			}
			l.Op(d)
		}
		if at == len(all) {
			l.Captured(&step.Capture{Process: c.process, Kernels: kernels})
		}
		if got := cut(step.New(l.Rule()), c.before+c.after); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Calls of a virtual clock can have equal times. A step takes at least a nanosecond, so steps that begin at the same time are one, and none is lost between others.
func TestStepsOfEqualTimesAreOne(t *testing.T) {
	all := ops(strings.Repeat("<ab.", 12))
	for _, c := range []struct {
		each int64 // ops at the same time
		want int
	}{{1, 12}, {2, 12}, {4, 12}, {8, 6}, {12, 4}, {48, 1}} {
		l := step.NewLearner(lanes, 0)
		for i := range all {
			all[i].Start = int64(i) / c.each
			all[i].End = all[i].Start
			l.Op(all[i])
		}
		f, n, until := step.New(l.Rule()), 0, int64(0)
		pass := func(now int64) {
			for s := f.Pass(now); s != nil; s = f.Pass(now) {
				if s.Index != n || s.From != until || s.To <= s.From {
					t.Errorf("%d ops at a time: %+v after %d", c.each, s, until)
				}
				n, until = n+1, s.To
			}
		}
		for i := range all {
			pass(all[i].Start)
			f.See(&all[i], nil)
		}
		f.Finish(until + 1)
		pass(math.MaxInt64)
		if n != c.want {
			t.Errorf("%d ops at a time: %d steps, want %d", c.each, n, c.want)
		}
	}
}

// The requests to a busy server were its steps: they cover all between them, and their tokens only most of it.
func TestTokensOfFewRequestsAreSteps(t *testing.T) {
	var program strings.Builder
	for _, prompt := range []string{"<ghijkl;<", "<mnopqr;<", "<stuvwx;<", "<uqmiyz;<"} {
		program.WriteString(prompt + strings.Repeat("abcdef.<", 15) + "abcdeg:")
	}
	f := step.New(learned(program.String()))
	if got := cut(f, program.String()); strings.Count(got, "[") < 4*14 {
		t.Error(got)
	}
}

// Of 60 tokens 3 were parts of the next ones, since their waits came before the copy to the host.
func TestTokensWithAnotherWaitAreSteps(t *testing.T) {
	token := strings.NewReplacer("x", "<abcdefghiabcdefj->!", "y", "<abcdefghi!abcdefj->", "z", "<abcdefghiabcdefj-!>")
	var program, want strings.Builder
	for _, r := range [][2]string{{"<klmnopqrsgj->!", "xxxxxxxyxxxxxx"}, {"<rsnptkuwvgj->!", "xxxxxxxxxzzxxx"}, {"<uvvwwttrrgj->!", "xxxxxxxxxxxxxx"}} {
		program.WriteString(r[0] + token.Replace(r[1]))
		want.WriteString("(" + r[0] + ")" + strings.ReplaceAll(token.Replace(r[1]), "<", "][<")[1:] + "]")
	}
	if got := cut(step.New(learned(program.String())), program.String()); got != want.String() {
		t.Errorf("%q", got)
		t.Errorf("%q", want.String())
	}
}

// Before each capture a framework launches kernels on the stream of captures that it also launches in each step, on a thread that runs no graph.
// Four captures were the steps, and the runs of the graph in none.
func TestRunsOfAGraphAreStepsAfterCaptures(t *testing.T) {
	program := strings.Repeat("1z1e1a1g1a:1F1F", 4) + "<1e1a1g1a1m>" + strings.Repeat("1<1f1fG>", 7)
	l := step.NewLearner(lanes, uint64(len(program)))
	for _, d := range ops(program) {
		if d.What == 'F' {
			d.What = 'f' // the same kernel
		}
		l.Op(d)
	}
	if got := cut(step.New(l.Rule()), program); strings.Count(got, "[") != 7 || !strings.HasSuffix(got, "[<ffG>]") {
		t.Error(got)
	}
}
