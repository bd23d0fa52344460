fn main() {
    for path in std::env::args().skip(1) {
        let t = std::time::Instant::now();
        match bars::read(path.as_ref(), &bars::Options::default(), &|_| {}) {
            Err(e) => println!("{path}\n   ERROR {e} | {:?}", e.remedy),
            Ok((_, a)) => {
                println!("{path}  [{:.0?}]\n   {} | {:?} | rows {} bars {} | {:?}", t.elapsed(), a.format, a.verdict, a.rows, a.bars, a.reasons);
                for f in a.files.iter().take(3) { for w in &f.why { println!("      why: {w}"); } }
                for w in &a.warnings { println!("      WARN: {w}"); }
                for r in &a.repairs { println!("      REPAIR {} {} {} {}", r.what, r.count, r.policy, r.example); }
                for l in a.left_out.iter().take(40) { println!("      LEFT {} {}", l.file, l.why); }
                for s in a.symbols.iter().take(4) {
                    println!("      {} {} {} {} {} {:?} cl {} holes {} miss {} {:?} stuck {} spk {} {:?} zv {:?} zj {} splits {} {:?}/{} {:?}", s.symbol, s.bars, s.first, s.last, s.timeframe, s.verdict, s.closures, s.holes, s.missing_bars, s.longest_hole.as_ref().map(|h| (&h.from, h.bars)), s.stuck_bars, s.spikes, s.worst_spike, s.zero_volume, s.zone_jumps, s.suspected_splits.len(), s.instrument.class, s.instrument.currency, s.reasons);
                }
            }
        }
    }
}
