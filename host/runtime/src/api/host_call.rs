//! The span of a host call.

use latchmail_core::traces::{Kind, Span};

/// Begins the span of a call of the host function `name`, which has the form `interface.function`.
/// The span ends when the returned value is dropped, at the end of the host function.
pub(super) fn host_call(name: &'static str) -> Span {
    Span::start(Kind::Internal, || format!("host call {name}").into()).entered()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Returns the texts of the files with this extension.
    fn texts(folder: &str, extension: &str) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|found| found == extension));
        files
            .map(|file| fs::read_to_string(file).unwrap())
            .collect()
    }

    #[test]
    fn every_host_function_has_a_span() {
        let sources = texts("src/api", "rs").concat();
        let mut count = 0;
        for wit in texts("../../wit", "wit") {
            let mut interface = "";
            for line in wit.lines().map(str::trim) {
                if let Some(name) = line.strip_prefix("interface ") {
                    interface = name.trim_end_matches(" {");
                }
                // Modules export the interfaces `module` and `handlers`.
                if let Some((function, _)) = line.split_once(": func(")
                    && !["module", "handlers"].contains(&interface)
                    && !line.starts_with("//")
                {
                    let name = format!("{interface}.{}", function.trim_start_matches('%'));
                    assert!(
                        sources.contains(&format!("host_call(\"{name}\")")),
                        "{name}"
                    );
                    count += 1;
                }
            }
        }
        assert!(count > 50, "{count}");
    }
}
