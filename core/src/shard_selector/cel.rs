//! The grammar of CEL, as far as a shard selector needs a tree: what an operator other than `||` works on is read and
//! forgotten, because such an operator is refused by its name. Depth is bounded as upstream bounds it, which also keeps
//! the stack of this recursive reader small.

use super::lexer::{self, Token};

/// Upstream's bound for expressions inside each other.
const MAX_DEPTH: usize = 250;
/// Upstream's bound for the text.
const MAX_CHARACTERS: usize = 100_000;
/// `object.metadata.uid` has 2 members; upstream's bound is that of its tree.
const MAX_MEMBERS: usize = 250;

/// Names that an expression may not use, though members may have them.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    /// A character that begins no word.
    #[error("Syntax error: token recognition error at: '{0}'")]
    Unknown(char),
    /// A word that cannot stand where it stands.
    #[error("Syntax error: unexpected {0}")]
    Unexpected(String),
    /// A text that ends too early.
    #[error("Syntax error: unexpected end")]
    End,
    /// A name that is not free to be used.
    #[error("reserved identifier: {0}")]
    Reserved(String),
    /// Optional members and elements, which are not switched on.
    #[error("unsupported syntax '{0}?'")]
    Optional(&'static str),
    /// A number beyond its type.
    #[error("invalid {0} literal")]
    Number(&'static str),
    /// An escape that stands for no character.
    #[error("invalid escape in a string literal")]
    Escape,
    /// Too many expressions inside each other.
    #[error("expression recursion limit exceeded: {MAX_DEPTH}")]
    Depth,
    /// Too long.
    #[error("expression code point size exceeds limit: size: {0}, limit {MAX_CHARACTERS}")]
    Size(usize),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Name(String),
    Member {
        of: Box<Expr>,
        name: String,
    },
    /// A call, or an operator under the name that CEL gives it.
    Call {
        function: String,
        arguments: Vec<Expr>,
    },
    Or(Vec<Expr>),
    Literal(Literal),
    List,
    Map,
    Message,
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Text(String),
    /// Of another type, under Go's name of it.
    Other(&'static str),
}

/// Operators from the loosest to the tightest; those of one row bind alike, to the left.
const OPERATORS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("<=", "_<=_"),
        (">=", "_>=_"),
        ("<", "_<_"),
        (">", "_>_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// Reads one expression.
pub(super) fn parse(text: &str) -> Result<Expr, CelError> {
    let characters = text.chars().count();
    if characters > MAX_CHARACTERS {
        return Err(CelError::Size(characters));
    }
    let mut parser = Parser { tokens: lexer::lex(text)?, at: 0, depth: 0 };
    let expr = parser.expr()?;
    if parser.at < parser.tokens.len() { Err(parser.unexpected()) } else { Ok(expr) }
}

// === impl Expr ===

impl Expr {
    /// CEL's number for the kind of expression.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Call { .. } | Self::Or(_) => 1,
            Self::Name(_) => 3,
            Self::List => 4,
            Self::Literal(_) => 5,
            Self::Map => 6,
            Self::Member { .. } => 7,
            Self::Message => 8,
        }
    }

    /// The names of a path with dots between them, or the expression at its start that is no name.
    pub(super) fn path(&self) -> Result<String, &Self> {
        match self {
            Self::Name(name) => Ok(name.clone()),
            Self::Member { of, name } => of.path().map(|path| format!("{path}.{name}")),
            Self::Call { .. } | Self::Or(_) | Self::Literal(_) | Self::List | Self::Map | Self::Message => {
                Err(self)
            }
        }
    }
}

// === impl Parser ===

impl Parser {
    fn expr(&mut self) -> Result<Expr, CelError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CelError::Depth);
        }
        let mut expr = self.operators(0)?;
        if self.take("?") {
            self.operators(0)?;
            self.expect(":")?;
            self.expr()?;
            expr = operator("_?_:_");
        }
        self.depth -= 1;
        Ok(expr)
    }

    fn operators(&mut self, loosest: usize) -> Result<Expr, CelError> {
        let mut left = self.signed()?;
        while let Some((row, name)) = self.operator().filter(|(row, _)| *row >= loosest) {
            self.at += 1;
            let right = self.operators(row + 1)?;
            left = if row == 0 { or(left, right) } else { operator(name) };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(usize, &'static str)> {
        let Some(Token::Symbol(symbol)) = self.tokens.get(self.at) else { return None };
        OPERATORS.iter().enumerate().find_map(|(row, operators)| {
            operators.iter().find(|(text, _)| text == symbol).map(|(_, name)| (row, *name))
        })
    }

    /// A member behind signs of one kind. Two signs cancel out, and one minus belongs to the number behind it.
    fn signed(&mut self) -> Result<Expr, CelError> {
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while (count > 0 || !self.is_negative_number()) && self.take(sign) {
                count += 1;
            }
            if count > 0 {
                let member = self.members()?;
                return Ok(if count % 2 == 0 { member } else { operator(name) });
            }
        }
        self.members()
    }

    fn members(&mut self) -> Result<Expr, CelError> {
        let mut expr = self.primary()?;
        let mut count = 0;
        loop {
            if self.take(".") {
                expr = self.member(expr)?;
            } else if self.take("[") {
                if self.take("?") {
                    return Err(CelError::Optional("["));
                }
                self.expr()?;
                self.expect("]")?;
                expr = operator("_[_]");
            } else {
                return Ok(expr);
            }
            count += 1;
            if count > MAX_MEMBERS {
                return Err(CelError::Depth);
            }
        }
    }

    /// What follows a dot. The receiver of a call is forgotten.
    fn member(&mut self, of: Expr) -> Result<Expr, CelError> {
        if self.take("?") {
            return Err(CelError::Optional("."));
        }
        let (name, is_plain) = match self.tokens.get(self.at) {
            Some(Token::Name(name)) => (name.clone(), true),
            Some(Token::EscapedName(name)) => (name.clone(), false),
            Some(Token::Text(_) | Token::Other(_) | Token::Number(..) | Token::Symbol(_)) | None => {
                return Err(self.unexpected());
            }
        };
        self.at += 1;
        if is_plain && self.take("(") {
            return Ok(Expr::Call { function: name, arguments: self.list(")")? });
        }
        Ok(Expr::Member { of: Box::new(of), name })
    }

    fn primary(&mut self) -> Result<Expr, CelError> {
        if self.is_message() {
            return self.message();
        }
        let is_negative = self.is_negative_number() && self.take("-");
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Number(type_name, number)) => number.check(is_negative).map(|()| literal(type_name)),
            Some(Token::Name(name)) => self.name(String::new(), name),
            Some(Token::Text(text)) => Ok(Expr::Literal(Literal::Text(text))),
            Some(Token::Other(type_name)) => Ok(literal(type_name)),
            Some(Token::Symbol("(")) => {
                let expr = self.expr()?;
                self.expect(")").map(|()| expr)
            }
            Some(Token::Symbol("[")) => self.elements(&Expr::List).map(|()| Expr::List),
            Some(Token::Symbol("{")) => self.elements(&Expr::Map).map(|()| Expr::Map),
            Some(Token::Symbol(".")) => match self.tokens.get(self.at).cloned() {
                Some(Token::Name(name)) => {
                    self.at += 1;
                    self.name(".".to_owned(), name)
                }
                _ => Err(self.unexpected()),
            },
            Some(Token::Symbol(_) | Token::EscapedName(_)) | None => Err(self.rejected()),
        }
    }

    /// A name or call, after the dot that may stand before it.
    fn name(&mut self, dot: String, name: String) -> Result<Expr, CelError> {
        if RESERVED.contains(&name.as_str()) {
            return Err(CelError::Reserved(name));
        }
        let name = dot + &name;
        if self.take("(") {
            return Ok(Expr::Call { function: name, arguments: self.list(")")? });
        }
        Ok(Expr::Name(name))
    }

    /// Expressions with commas between them, up to the closing symbol.
    fn list(&mut self, close: &'static str) -> Result<Vec<Expr>, CelError> {
        let mut list = Vec::new();
        if self.take(close) {
            return Ok(list);
        }
        loop {
            list.push(self.expr()?);
            if !self.take(",") {
                self.expect(close)?;
                return Ok(list);
            }
        }
    }

    /// The inside of a list, map or message and its end; a comma may stand after the last element.
    fn elements(&mut self, form: &Expr) -> Result<(), CelError> {
        let close = if *form == Expr::List { "]" } else { "}" };
        loop {
            if self.take(close) {
                return Ok(());
            }
            if self.take(",") {
                return self.expect(close);
            }
            if self.take("?") {
                return Err(CelError::Optional(""));
            }
            if *form == Expr::Message {
                self.field_name()?;
            } else {
                self.expr()?;
            }
            if *form != Expr::List {
                self.expect(":")?;
                self.expr()?;
            }
            if !self.take(",") {
                return self.expect(close);
            }
        }
    }

    fn field_name(&mut self) -> Result<(), CelError> {
        if !matches!(self.tokens.get(self.at), Some(Token::Name(_) | Token::EscapedName(_))) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    /// Whether names with dots between them, and then a brace, stand here.
    fn is_message(&self) -> bool {
        let mut at = self.at + usize::from(self.is_symbol(self.at, "."));
        while matches!(self.tokens.get(at), Some(Token::Name(_))) {
            if self.is_symbol(at + 1, "{") {
                return true;
            }
            if !self.is_symbol(at + 1, ".") {
                return false;
            }
            at += 2;
        }
        false
    }

    fn message(&mut self) -> Result<Expr, CelError> {
        while !self.take("{") {
            self.at += 1;
        }
        self.elements(&Expr::Message).map(|()| Expr::Message)
    }

    fn is_negative_number(&self) -> bool {
        let is_number =
            matches!(self.tokens.get(self.at + 1), Some(Token::Number(_, number)) if number.takes_minus());
        is_number && self.is_symbol(self.at, "-")
    }

    fn is_symbol(&self, at: usize, wanted: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Symbol(symbol)) if *symbol == wanted)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_there = self.is_symbol(self.at, symbol);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CelError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The word just taken cannot stand where it stood.
    fn rejected(&mut self) -> CelError {
        self.at -= 1;
        self.unexpected()
    }

    fn unexpected(&self) -> CelError {
        self.tokens.get(self.at).map_or(CelError::End, |token| CelError::Unexpected(token.to_string()))
    }
}

fn or(left: Expr, right: Expr) -> Expr {
    let mut terms = if let Expr::Or(terms) = left { terms } else { vec![left] };
    terms.push(right);
    Expr::Or(terms)
}

/// An operator whose operands don't matter.
fn operator(name: &str) -> Expr {
    Expr::Call { function: name.to_owned(), arguments: Vec::new() }
}

fn literal(type_name: &'static str) -> Expr {
    Expr::Literal(Literal::Other(type_name))
}
