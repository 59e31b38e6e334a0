//! Enums whose variants have names in requests, responses or the configuration.

/// Declares an enum in which each variant has a name.
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident {
            $($(#[$doc:meta])* $variant:ident = $name:expr),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        pub enum $type {
            $($(#[$doc])* $variant),*
        }

        impl $type {
            /// All variants, in canonical order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }

            /// Returns the variant with this name, or `None` if there is no such variant.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
