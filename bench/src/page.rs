//! The page with the plots and the tables of a run (docs/performance.md, docs/soak.md). It contains
//! the machine and the versions of the programs, but no judgement: the targets are in the table of
//! the report.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::plots::Plot;

/// The folder of the plots, relative to the page.
const IMAGES: &str = "images/performance";

/// The file, the title, the introduction and the command of a page.
pub(crate) struct Head {
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    pub(crate) command: String,
}

impl Head {
    /// Returns the head of the page of the benchmarks. `is_complete` is false if the run used a
    /// small workload, or not all sections.
    pub(crate) fn benchmarks(is_complete: bool) -> Self {
        Self {
            file: "performance.md",
            title: "Performance",
            text: if is_complete {
                "The figures of one complete run of the benchmarks, which writes this page: [Benchmarks and profiles](benchmarks.md). p50 and p99 are the latencies \
                 that 50 % and 99 % of the requests did not exceed. For a long run, see [Soak](soak.md)."
            } else {
                "**The figures are not meaningful: they are those of an incomplete run of the benchmarks.**"
            },
            command: "./just bench --page docs".into(),
        }
    }
}

/// The parts of the page after its head.
#[derive(Default)]
pub(crate) struct Page {
    markdown: String,
    /// The names of the SVG files and their contents.
    plots: Vec<(String, String)>,
}

impl Page {
    /// Adds a heading and a text to the page. The plots and tables of the section follow.
    pub(crate) fn section(&mut self, title: &str, text: &str) {
        self.paragraph(&format!("## {title}"));
        self.paragraph(text);
    }

    /// Adds a heading of a part of a section to the page.
    pub(crate) fn subsection(&mut self, title: &str) {
        self.paragraph(&format!("### {title}"));
    }

    /// Adds plots to the page, next to each other, and a text that says what they show.
    pub(crate) fn plots(&mut self, plots: &[Plot], text: &str) -> anyhow::Result<()> {
        let mut images = Vec::new();
        for plot in plots {
            let file = format!("{}.svg", plot.file);
            images.push(format!("![{}]({IMAGES}/{file})", plot.title));
            self.plots.push((file, plot.svg()?));
        }
        self.paragraph(text);
        self.paragraph(&images.join(" "));
        Ok(())
    }

    /// Adds a table to the page. All columns but the first are numbers.
    pub(crate) fn table<const COLUMNS: usize>(
        &mut self,
        header: [&str; COLUMNS],
        rows: &[[String; COLUMNS]],
    ) {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        let mut table = vec![line(&header.map(String::from))];
        let separator: [String; COLUMNS] = std::array::from_fn(|column| match column {
            0 => "---".into(),
            _ => "---:".into(),
        });
        table.push(line(&separator));
        table.extend(rows.iter().map(|row| line(row)));
        self.paragraph(&table.join("\n"));
    }

    /// Writes the page to a folder, and its plots to a folder in that folder.
    pub(crate) fn write(&self, folder: &Path, head: &Head) -> anyhow::Result<()> {
        let images = folder.join(IMAGES);
        fs::create_dir_all(&images)?;
        for (file, svg) in &self.plots {
            fs::write(images.join(file), svg)?;
        }
        let page = text_of(head)? + &self.markdown;
        fs::write(folder.join(head.file), page.trim_end().to_owned() + "\n")?;
        Ok(())
    }

    fn paragraph(&mut self, text: &str) {
        self.markdown.push_str(text);
        self.markdown.push_str("\n\n");
    }
}

/// Returns the head of the page: the machine, the programs and the command.
fn text_of(head: &Head) -> anyhow::Result<String> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    let value = |text: &str, key: &str| -> String {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(|value| value.trim_matches([' ', '\t', ':', '=', '"']).to_owned())
            .unwrap_or_default()
    };
    let memory: f64 = value(&read("/proc/meminfo")?, "MemTotal")
        .trim_end_matches(" kB")
        .parse()?;
    let rows = [
        ("Processor", value(&read("/proc/cpuinfo")?, "model name")),
        (
            "Cores",
            std::thread::available_parallelism()?.get().to_string(),
        ),
        ("Memory", format!("{:.1} GiB", memory / 1024.0 / 1024.0)),
        ("Kernel", output_of("uname", &["-sr"])),
        ("System", value(&read("/etc/os-release")?, "PRETTY_NAME")),
        ("Dovecot", output_of("dovecot", &["--version"])),
        (
            "Postfix",
            output_of("postconf", &["-d", "-h", "mail_version"]),
        ),
        ("Rust", output_of("rustc", &["--version"])),
        (
            "Commit",
            format!(
                "`{}`",
                output_of("git", &["describe", "--always", "--dirty"])
            ),
        ),
        ("Date", output_of("date", &["--utc", "+%F"])),
        ("Command", format!("`{}`", head.command)),
    ];
    let table = rows.map(|(name, value)| format!("| {name} | {value} |\n"));
    let table = table.concat();
    Ok(format!(
        "# {}\n\n{}\n\n\
         | | |\n|---|---|\n{table}\n\
         The service, its mail servers and the clients share this machine.\n\n",
        head.title, head.text
    ))
}

/// Returns the output of a program, or an empty string if it cannot be run.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
