local M = {}
function M.square(side) return { side = side, area = function(self) return self.side ^ 2 end } end
function M.circle(radius) return { radius = radius, area = function(self) return math.pi * self.radius ^ 2 end } end
function M.area(shapes) local sum = 0 for _, shape in ipairs(shapes) do sum = sum + shape:area() end return ("%.6f"):format(sum) end
return M
