//! `fullbore probe`

use super::{Context, Outcome};
use crate::args::Probe as Args;
use crate::fail::Failure;
use crate::out::{self, Paint};
use crate::show::{fit, table, wrap};
use files::{format_bandwidth, format_bytes, format_plural, format_seconds, format_short};
use jobs::Probed;
use machine::{Cpu, Gpu, GpuRates, QuickProbe, Sample};
use std::fmt::Write;

pub(super) fn run(args: &Args, context: &mut Context) -> Outcome {
    if let Some(seconds) = args.watch {
        return watch(seconds as usize, context);
    }
    let progress = &mut context.progress;
    if args.quick {
        let quick = jobs::quick(&mut |u| progress.update(u))?;
        context.print(&quick, |paint| passed(&quick, paint))?;
    } else {
        let probed = jobs::probe(&mut |u| progress.update(u))?;
        context.print(&probed, |paint| render(&probed, paint))?;
    }
    Ok(0)
}

/// A line a second, as it comes; with `--json` everything at the end.
fn watch(seconds: usize, context: &Context) -> Outcome {
    let mut first = true;
    let watched = jobs::watch(seconds, &mut |sample: &Sample| {
        if context.json {
            return Ok(());
        }
        let text = lines(sample);
        // The heading stands above the first line only.
        let text = if first { text } else { text.split_once('\n').map_or(String::new(), |t| t.1.to_string()) };
        first = false;
        out::print_text(&text)
    })?;
    if context.json {
        out::print_json(context.schema, true, &watched)?;
    }
    Ok::<u8, Failure>(0)
}

/// One sample under its heading: a line, and one more for each further card.
fn lines(sample: &Sample) -> String {
    let pad = |text: String, wide: usize| format!("{text:>wide$}");
    let dash = || "-".to_string();
    let most = sample.cpu_percent.iter().copied().fold(0.0, f32::max);
    let mut row = vec![
        pad(format!("{:.0} s", sample.at_seconds), 7),
        pad(format!("{:.0} %", sample.cpu_mean_percent()), 6),
        pad(format!("{most:.0} %"), 7),
        pad(sample.load_average.map_or_else(dash, |load| format!("{:.1}", load[0])), 6),
        pad(format_bytes(sample.memory_used_bytes), 8),
        pad(sample.process_memory_bytes.map_or_else(dash, format_bytes), 8),
    ];
    let mut rows = Vec::new();
    for gpu in &sample.gpus {
        row.extend([
            gpu.index.to_string(),
            pad(gpu.busy_percent.map_or_else(dash, |p| format!("{p:.0} %")), 6),
            pad(gpu.memory_used_bytes.map_or_else(dash, format_bytes), 8),
            pad(gpu.power_watts.map_or_else(dash, |w| format!("{w:.0} W")), 6),
            pad(gpu.clock_mhz.map_or_else(dash, |mhz| format!("{mhz} MHz")), 9),
            pad(gpu.temperature_celsius.map_or_else(dash, |c| format!("{c} C")), 5),
        ]);
        rows.push(std::mem::replace(&mut row, vec![String::new(); 6]));
    }
    if rows.is_empty() {
        rows.push(row);
    }
    let heads = [
        ">time", ">cpu", ">busiest", ">load", ">memory", ">process", ">gpu", ">busy", ">memory", ">power", ">clock",
        ">heat",
    ];
    table(&heads[..rows[0].len()], &rows, "")
}

fn passed(quick: &QuickProbe, paint: Paint) -> String {
    let mut text =
        format!("{}  device works: {} ({})\n\n", paint.green("pass"), quick.device, format_seconds(quick.seconds));
    quick.says.iter().for_each(|line| text.push_str(&wrap(line, "  - ", "    ")));
    text
}

/// Everything for the eye: what it is, how fast, what would mislead, where to begin.
fn render(probed: &Probed, paint: Paint) -> String {
    let profile = &probed.profile;
    let mut text = format!("{}  machine {}\n\n", paint.bold(&fit(&profile.cpu.model, 60)), profile.key);
    let mut part = |name: &str, what: &str| text.push_str(&wrap(what, &format!("  {name:<10} "), "             "));
    let kernel = profile.os.kernel.as_ref().map_or(String::new(), |k| format!(", kernel {k}"));
    part("system", &format!("{}{kernel}, {}", profile.os.name, profile.os.architecture));
    part("cores", &cores(&profile.cpu));
    part("SIMD", &if profile.cpu.simd.is_empty() { "none found".into() } else { profile.cpu.simd.join(", ") });
    if !profile.cpu.caches.is_empty() {
        part("caches", &caches(&profile.cpu));
    }
    let memory = &profile.memory;
    let limit = memory.limit_bytes.map_or(String::new(), |l| format!(", limited to {}", format_bytes(l)));
    part(
        "memory",
        &format!("{}, {} available{limit}", format_bytes(memory.total_bytes), format_bytes(memory.available_bytes)),
    );
    part("CUDA", &profile.cuda.says);
    profile.gpus.iter().for_each(|gpu| part(&format!("GPU {}", gpu.index), &card(gpu)));
    let rates = &profile.cpu_rates;
    let product = |rate: f64| format!("{} GFLOP/s", format_short(rate / 1e9));
    let all = format!(">{}", format_plural(rates.threads as u64, "thread"));
    let rows = [
        vec![
            "memory copy".to_string(),
            format_bandwidth(rates.copy_one_thread_bytes_per_s),
            format_bandwidth(rates.copy_all_threads_bytes_per_s),
        ],
        vec![
            "f32 matrix product".to_string(),
            product(rates.product_one_thread_flop_per_s),
            product(rates.product_all_threads_flop_per_s),
        ],
    ];
    let _ = write!(text, "\n{}", table(&["CPU, measured", ">one thread", &all], &rows, "  "));
    for gpu in profile.gpus.iter().filter(|gpu| gpu.rates != GpuRates::default()) {
        let _ = write!(text, "\n{}", card_rates(gpu));
    }
    if !profile.warnings.is_empty() {
        text.push_str("\nWarnings: these would distort measurements\n");
        for warning in &profile.warnings {
            text.push_str(&wrap(&format!("{}={}: {}", warning.name, warning.value, warning.says), "  - ", "    "));
        }
    }
    let start = &probed.start;
    let begin = format!(
        "Tuning begins ({}) with {} members, batches of {} (small net), {} (recurrent) and {} (wide), {} environments, {}, {}, {:.0} % of the free memory.",
        start.source,
        start.members,
        start.small_mlp_batch,
        start.lstm_batch,
        start.wide_mlp_batch,
        start.environments,
        start.precision,
        format_plural(start.threads as u64, "thread"),
        100.0 * start.memory_share
    );
    text.push('\n');
    text.push_str(&wrap(&begin, "", ""));
    text.push_str(&wrap(&format!("Saved in {}", probed.file), "", ""));
    text
}

fn cores(cpu: &Cpu) -> String {
    let mut text = match cpu.physical_cores {
        Some(n) => {
            format!("{}, {}", format_plural(n as u64, "core"), format_plural(cpu.logical_cores as u64, "thread"))
        }
        None => format_plural(cpu.logical_cores as u64, "thread"),
    };
    if let (Some(fast), Some(slow)) = (cpu.performance_cores, cpu.efficiency_cores) {
        let _ = write!(text, " ({fast} performance, {slow} efficiency)");
    }
    let _ = write!(text, "; {} used", cpu.usable_threads);
    text
}

fn caches(cpu: &Cpu) -> String {
    let one = |cache: &machine::Cache| {
        let kind = if cache.kind == "unified" { String::new() } else { format!(" {}", cache.kind) };
        let shared = cache.shared_by.filter(|n| *n > 1).map_or(String::new(), |n| format!(" for {n} threads"));
        format!("L{}{kind} {}{shared}", cache.level, format_bytes(cache.size_bytes))
    };
    cpu.caches.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn card(gpu: &Gpu) -> String {
    let mut text =
        format!("{}, {}, {} free", gpu.name, format_bytes(gpu.memory_total_bytes), format_bytes(gpu.memory_free_bytes));
    let known = [
        gpu.multiprocessors.map(|n| format!("{n} multiprocessors")),
        gpu.capability.as_ref().map(|c| format!("compute capability {c}")),
        gpu.driver.as_ref().map(|d| format!("driver {d}")),
        Some(gpu.blaslt.as_ref().map_or("no cuBLASLt: fullbore's own matrix product is used".into(), Clone::clone)),
    ];
    known.into_iter().flatten().for_each(|k| text.push_str(&format!(", {k}")));
    text
}

fn card_rates(gpu: &Gpu) -> String {
    let rates = &gpu.rates;
    let show = |value: Option<f64>, scale: f64, unit: &str| {
        value.map_or("not measured".to_string(), |v| format!("{} {unit}", format_short(v / scale)))
    };
    let copy = |rate: Option<f64>| rate.map_or("not measured".to_string(), format_bandwidth);
    let rows = [
        ("copy on the device", copy(rates.device_copy_bytes_per_s)),
        ("host to device", copy(rates.host_to_device_bytes_per_s)),
        ("device to host", copy(rates.device_to_host_bytes_per_s)),
        ("f32 matrix product", show(rates.f32_flop_per_s, 1e12, "TFLOP/s")),
        ("TF32 matrix product", show(rates.tf32_flop_per_s, 1e12, "TFLOP/s")),
        ("bf16 matrix product", show(rates.bf16_flop_per_s, 1e12, "TFLOP/s")),
        ("launch", show(rates.launch_us, 1.0, "us")),
        ("graph node", show(rates.graph_node_us, 1.0, "us")),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
    table(&[&format!("GPU {}, measured", gpu.index), ">rate"], &rows, "  ")
}
