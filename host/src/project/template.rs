//! The files of a project that its author works on.

use super::Name;

/// What the compiler is to be, and how it is to build for the sandbox: the same as for the modules that come with the service.
const TOOLCHAIN: &str = include_str!("../../../rust-toolchain.toml");
const CARGO_CONFIG: &str = include_str!("../../../.cargo/config.toml");

/// The files by their paths, blanks and all.
const FILES: [(&str, &str); 6] = [
    (
        "Cargo.toml",
        include_str!("../../module-template/Cargo.toml.in"),
    ),
    (
        "README.md",
        include_str!("../../module-template/README.md.in"),
    ),
    (
        "src/lib.rs",
        include_str!("../../module-template/src/lib.rs.in"),
    ),
    (
        "src/hello.rs",
        include_str!("../../module-template/src/hello.rs.in"),
    ),
    (".gitignore", "/target\n"),
    (".cargo/config.toml", CARGO_CONFIG),
];

pub(super) fn files(name: &Name) -> Vec<(String, String)> {
    let blanks = [
        ("{{name}}", name.to_string()),
        ("{{Name}}", name.in_capitals()),
        ("{{file}}", name.file()),
    ];
    let filled = |text: &str| {
        blanks.iter().fold(text.to_owned(), |text, (blank, value)| {
            text.replace(blank, value)
        })
    };
    FILES
        .iter()
        .map(|(path, text)| ((*path).to_owned(), filled(text)))
        .chain([("rust-toolchain.toml".to_owned(), TOOLCHAIN.to_owned())])
        .collect()
}
