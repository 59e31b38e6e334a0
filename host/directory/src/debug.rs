//! The `Debug` text of types with secrets.

/// Implements `Debug` for a type. The text contains only the named fields, because the other fields
/// contain secrets or personal data.
macro_rules! debug_fields {
    ($type:ident { $($field:ident),* }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_fields;
