"""Constructors of records with each number of fields, written out.

``record`` gives every class a copy of one of them with its own names. They were compiled from text
when the first record of a size was defined: thirty times in a run, 4 % of a short one. Written out
they are compiled once, when the package is installed. What they do stands in ``record``; a test
compares them with it.
"""

# ruff: noqa: E501, E702
# mypy: ignore-errors
# fmt: off

new = tuple.__new__


def new_0(self): return new(self, ())
def new_1(self, _0): return new(self, (_0,))
def new_2(self, _0, _1): return new(self, (_0, _1))
def new_3(self, _0, _1, _2): return new(self, (_0, _1, _2))
def new_4(self, _0, _1, _2, _3): return new(self, (_0, _1, _2, _3))
def new_5(self, _0, _1, _2, _3, _4): return new(self, (_0, _1, _2, _3, _4))
def new_6(self, _0, _1, _2, _3, _4, _5): return new(self, (_0, _1, _2, _3, _4, _5))
def new_7(self, _0, _1, _2, _3, _4, _5, _6): return new(self, (_0, _1, _2, _3, _4, _5, _6))
def new_8(self, _0, _1, _2, _3, _4, _5, _6, _7): return new(self, (_0, _1, _2, _3, _4, _5, _6, _7))
def new_9(self, _0, _1, _2, _3, _4, _5, _6, _7, _8): return new(self, (_0, _1, _2, _3, _4, _5, _6, _7, _8))
def new_10(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9): return new(self, (_0, _1, _2, _3, _4, _5, _6, _7, _8, _9))
def new_11(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10): return new(self, (_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10))
def new_12(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11): return new(self, (_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11))
def new_13(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12): return new(self, (_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12))


def init_1(self, _0):
    held = self.__dict__; held["_0"] = _0


def init_2(self, _0, _1):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1


def init_3(self, _0, _1, _2):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2


def init_4(self, _0, _1, _2, _3):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3


def init_5(self, _0, _1, _2, _3, _4):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4


def init_6(self, _0, _1, _2, _3, _4, _5):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5


def init_7(self, _0, _1, _2, _3, _4, _5, _6):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6


def init_8(self, _0, _1, _2, _3, _4, _5, _6, _7):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7


def init_9(self, _0, _1, _2, _3, _4, _5, _6, _7, _8):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8


def init_10(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9


def init_11(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10


def init_12(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11


def init_13(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12


def init_14(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13


def init_15(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13
    held["_14"] = _14


def init_16(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13
    held["_14"] = _14; held["_15"] = _15


def init_17(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13
    held["_14"] = _14; held["_15"] = _15; held["_16"] = _16


def init_18(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13
    held["_14"] = _14; held["_15"] = _15; held["_16"] = _16; held["_17"] = _17


def init_19(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13
    held["_14"] = _14; held["_15"] = _15; held["_16"] = _16; held["_17"] = _17
    held["_18"] = _18


def init_20(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19):
    held = self.__dict__; held["_0"] = _0; held["_1"] = _1; held["_2"] = _2; held["_3"] = _3
    held["_4"] = _4; held["_5"] = _5; held["_6"] = _6; held["_7"] = _7; held["_8"] = _8
    held["_9"] = _9; held["_10"] = _10; held["_11"] = _11; held["_12"] = _12; held["_13"] = _13
    held["_14"] = _14; held["_15"] = _15; held["_16"] = _16; held["_17"] = _17
    held["_18"] = _18; held["_19"] = _19
